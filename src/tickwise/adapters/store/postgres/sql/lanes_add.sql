-- Give numbers to lanes that have none yet, unless there would be too many. $1 lanes as JSON: [queue, priority, [label, …]],
-- $2 most lanes (a few more, if several come at the same time).
WITH n AS MATERIALIZED (
  SELECT DISTINCT e ->> 0 AS queue, (e ->> 1)::smallint AS priority, ARRAY(SELECT jsonb_array_elements_text(e -> 2)) AS requires
  FROM jsonb_array_elements($1::jsonb) e
  EXCEPT SELECT queue, priority, requires FROM tickwise.lanes
)
INSERT INTO tickwise.lanes (queue, priority, requires)
SELECT queue, priority, requires FROM n
WHERE (SELECT count(*) FROM tickwise.lanes) + (SELECT count(*) FROM n) <= $2::int
ON CONFLICT DO NOTHING
