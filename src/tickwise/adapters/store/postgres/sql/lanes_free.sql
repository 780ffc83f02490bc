-- Free lanes that have been idle for $1 seconds, and were found so a moment ago. $2 lanes that were looked at. How many.
WITH gone AS (
  DELETE FROM tickwise.lanes
  WHERE lane = ANY($2::int[]) AND idle < tickwise.now() - $1::float8 * interval '1 second'
  RETURNING lane, priority, namespace, queue, requires
),
noted AS (
  INSERT INTO tickwise.lanes_freed (freed, lane, priority, namespace, queue, requires)
  SELECT tickwise.now(), lane, priority, namespace, queue, requires FROM gone
)
SELECT count(*) FROM gone
