-- Renew the lease of a living executor, and hear what is asked of it: one row at least, the first columns the same in all.
-- A request whose attempt is over is told apart (`held` false) so that it can be cleared.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
b AS (
  UPDATE tickwise.executors
  SET lease = (SELECT at FROM clock) + $2::float8 * interval '1 second', lease_seconds = $2,
      functions = coalesce($3::text[], functions)
  WHERE executor = $1 AND gone IS NULL
  RETURNING true AS alive
)
SELECT coalesce((SELECT alive FROM b), false), (SELECT date_part('epoch', at) FROM clock), c.run_id, c.kind,
       (SELECT r.holder = c.holder AND r.token = c.token FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) AS held
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT run_id, kind, holder, token FROM tickwise.cancel_requests WHERE holder = $1 OFFSET 0) c ON true
