-- Requests to stop a run that its holder has not heard for a minute, or that outlive their run. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT c.run_id AS id, c.asked, c.heard, c.kind,
         (SELECT r.holder = c.holder AND r.token = c.token FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) IS TRUE AS held
  FROM tickwise.cancel_requests c
  WHERE c.run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY c.run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, CASE WHEN held THEN 'its holder has not heard for a minute that it should stop'
                             ELSE 'a request to stop it is there, and nobody holds it' END AS detail,
         (SELECT s.namespace FROM tickwise.runs_shown s WHERE s.run_id = p.id LIMIT 1) AS namespace
  FROM p
  WHERE kind <> 'return' AND asked < (SELECT at FROM clock) - interval '1 minute'
    AND CASE WHEN held THEN heard IS NULL
        ELSE (SELECT h.ended < (SELECT at FROM clock) - interval '1 minute' FROM tickwise.history h WHERE h.run_id = p.id OFFSET 0)
             IS NOT FALSE END
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
