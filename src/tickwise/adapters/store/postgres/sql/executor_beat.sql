-- Renew the lease of an active executor, and hear what is asked of it: one row at least, the first columns the same in all.
-- The first time that a request is told is kept. A request whose attempt is over is told apart (`held` false) so that it can be cleared.
-- `untold`: a hold of a queue has just begun, and not all that is to be given back may have been asked for.
-- $4 of how many runs it knows better than the store (NULL: as before), $5 the highest fencing token that its process has seen.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
b AS (
  UPDATE tickwise.executors
  SET lease = (SELECT at FROM clock) + $2::float8 * interval '1 second', lease_seconds = $2,
      functions = coalesce($3::text[], functions), differs = coalesce($4::int, differs),
      differing = CASE WHEN coalesce($4, differs) > 0 THEN coalesce(differing, (SELECT at FROM clock)) END
  WHERE executor = $1 AND gone IS NULL
  RETURNING true AS alive
),
h AS (
  UPDATE tickwise.cancel_requests SET heard = (SELECT at FROM clock)
  WHERE holder = $1 AND heard IS NULL AND (SELECT alive FROM b)
)
SELECT coalesce((SELECT alive FROM b), false), (SELECT date_part('epoch', at) FROM clock), c.run_id, c.kind,
       (SELECT r.holder = c.holder AND r.token = c.token AND (c.kind <> 'return' OR r.state = 2) FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) AS held,
       (SELECT count(*) > 0 FROM tickwise.holds WHERE NOT told AND begun <= (SELECT at FROM clock)) AS untold,
       (SELECT tickwise.epoch($5::bigint, NULL)) AS epoch
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT run_id, kind, holder, token FROM tickwise.cancel_requests WHERE holder = $1 OFFSET 0) c ON true
