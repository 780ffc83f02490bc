-- Executors whose lease is over for more than a minute and that are not expired, or that hold something still. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT lpad(to_hex(executor), 32, '0')::uuid AS id, lease, lease_seconds, gone, settled FROM tickwise.executors
  WHERE executor > coalesce(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint, 0) ORDER BY executor LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, CASE WHEN gone IS NULL THEN 'its lease is over for more than a minute'
                             ELSE 'it is gone for more than a minute, and may hold runs still' END AS detail,
         NULL::text AS namespace
  FROM p
  WHERE CASE WHEN gone IS NULL
        THEN lease < (SELECT at FROM clock) - interval '1 minute'
             AND (SELECT tickwise.started()) + lease_seconds * interval '1 second' < (SELECT at FROM clock) - interval '1 minute'
        ELSE NOT settled AND gone < (SELECT at FROM clock) - interval '1 minute' END
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
