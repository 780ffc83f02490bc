-- Give numbers to lanes that have none yet, unless there would be too many. $1 lanes as JSON: [namespace, queue, priority, [label, …]],
-- $2 most lanes (a few more, if several come at the same time).
WITH n AS MATERIALIZED (
  SELECT DISTINCT e ->> 0 AS namespace, e ->> 1 AS queue, (e ->> 2)::smallint AS priority,
         ARRAY(SELECT jsonb_array_elements_text(e -> 3)) AS requires
  FROM jsonb_array_elements($1::jsonb) e
  EXCEPT SELECT namespace, queue, priority, requires FROM tickwise.lanes
)
INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
SELECT namespace, queue, priority, requires FROM n
WHERE (SELECT count(*) FROM tickwise.lanes) + (SELECT count(*) FROM n) <= $2::int
ON CONFLICT DO NOTHING
