-- Active executors that have known better than the store for more than a minute what they hold. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH p AS MATERIALIZED (
  SELECT lpad(to_hex(executor), 32, '0')::uuid AS id, executor, gone, differs, differing FROM tickwise.executors
  WHERE executor > coalesce(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint, 0) ORDER BY executor LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'executor ' || executor || ' has said for more than a minute that it holds other runs than the store says: '
                        || differs || ' of them' AS detail, NULL::text AS namespace
  FROM p WHERE gone IS NULL AND differs > 0 AND differing < (SELECT tickwise.now()) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
