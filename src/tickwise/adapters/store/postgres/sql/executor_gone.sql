-- The orderly end of an executor begins: it gets nothing from now on.
UPDATE tickwise.executors SET gone = tickwise.now() WHERE executor = $1 AND gone IS NULL
