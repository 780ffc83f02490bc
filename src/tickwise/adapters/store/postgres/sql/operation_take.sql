-- The operation that waits longest and that nobody has in hand, for $1 seconds.
UPDATE tickwise.operations
SET free = tickwise.now() + $1::float8 * interval '1 second'
WHERE operation_id = (
  SELECT operation_id FROM tickwise.operations
  WHERE status = 'running' AND free <= (SELECT tickwise.now()) ORDER BY free, operation_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems
