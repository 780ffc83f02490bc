-- What these held is free.
UPDATE tickwise.executors SET settled = true WHERE executor = ANY($1::bigint[])
