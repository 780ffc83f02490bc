-- name: lanes_add
-- Give numbers to lanes that have none yet, as far as there is room, and keep those that were about to be freed. $1 lanes as JSON:
-- [namespace, queue, priority, [label, …], whether it is a default lane, the quota of its namespace or null], $2 most lanes, $3 most of a
-- namespace, $4 how many of a namespace there is always room for (a few more of each, if several come at the same time). Default lanes count,
-- and are never refused. A namespace that is gone gets none.
WITH n AS MATERIALIZED (
  SELECT DISTINCT e ->> 0 AS namespace, e ->> 1 AS queue, (e ->> 2)::smallint AS priority,
         ARRAY(SELECT jsonb_array_elements_text(e -> 3)) AS requires, (e ->> 4)::boolean AS by_default,
         (e ->> 5)::int AS quota
  FROM jsonb_array_elements($1::jsonb) e
  WHERE e ->> 0 NOT IN (SELECT name FROM tickwise.namespaces_removed) OR e ->> 0 IN (SELECT name FROM tickwise.namespaces)
),
kept AS (
  UPDATE tickwise.lanes l SET idle = NULL FROM n
  WHERE l.idle IS NOT NULL AND (l.namespace, l.queue, l.priority, l.requires) = (n.namespace, n.queue, n.priority, n.requires)
),
new AS (
  SELECT namespace, queue, priority, requires, by_default, quota,
         row_number() OVER (ORDER BY by_default, namespace, queue, priority) AS number,
         row_number() OVER (PARTITION BY namespace ORDER BY by_default, queue, priority) AS of_namespace
  FROM n WHERE NOT EXISTS (
    SELECT FROM tickwise.lanes l
    WHERE (l.namespace, l.queue, l.priority, l.requires) = (n.namespace, n.queue, n.priority, n.requires))
)
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT namespace, queue, priority, requires
FROM new CROSS JOIN LATERAL (SELECT count(*) AS count FROM tickwise.lanes l WHERE l.namespace = new.namespace) mine
WHERE by_default
   OR of_namespace + mine.count <= least($4::int, quota)
   OR of_namespace + mine.count <= least($3::int, quota) AND number + (SELECT count(*) FROM tickwise.lanes) <= $2::int
ON CONFLICT DO NOTHING
