-- An executor that has known better for more than a minute loses its lease. $1 the executor's number as an id.
UPDATE tickwise.executors SET gone = tickwise.now()
WHERE executor = ('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint AND gone IS NULL AND differs > 0
  AND differing < (SELECT tickwise.now()) - interval '1 minute'
