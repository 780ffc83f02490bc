-- The indexes of timers that are put back when it is full: name, definition.
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'tickwise' AND tablename = 'timers' AND indexname NOT LIKE '%pkey'
