-- name: objectives_counts
-- The starts of the objectives $1 in the windows $2 (seconds before now), of which those of more than $3 go by hours. Of each lane $4 of the
-- runs are looked at that are due for longest. Each objective has a row for each window.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (SELECT * FROM tickwise.objectives WHERE objective_id = ANY($1::uuid[])),
w AS MATERIALIZED (
  SELECT w.window_seconds, CASE WHEN w.window_seconds > $3::float8 THEN 3600 ELSE 60 END AS seconds,
         date_bin(CASE WHEN w.window_seconds > $3 THEN interval '1 hour' ELSE interval '1 minute' END,
                  (SELECT at FROM clock) - w.window_seconds * interval '1 second', 'epoch') AS since
  FROM unnest($2::float8[]) w(window_seconds)
),
-- Those that are late before their end: a first attempt that began late, or has not begun.
active AS MATERIALIZED (
  SELECT o.objective_id, r.due FROM o
  JOIN tickwise.lanes l ON l.namespace = o.namespace AND (o.priority IS NULL OR l.priority = o.priority)
  CROSS JOIN LATERAL (
    SELECT job_id, due, started, state, attempt, failures, crashes FROM tickwise.runs
    WHERE lane = l.lane AND ready < (SELECT at FROM clock) - o.start_within * interval '1 second' ORDER BY ready LIMIT $4) r
  WHERE r.attempt <= 1 AND r.failures = 0 AND r.crashes = 0
    AND (r.state <> {RunState.RUNNING} OR r.started > r.due + o.start_within * interval '1 second')
    AND (o.labels = '{}' OR EXISTS (SELECT FROM tickwise.jobs j WHERE j.job_id = r.job_id AND j.labels @> o.labels OFFSET 0))
),
counted AS (
  SELECT c.objective_id, w.window_seconds, c.good, c.late
  FROM w CROSS JOIN o JOIN tickwise.objective_counts c ON c.objective_id = o.objective_id AND c.seconds = w.seconds AND c.begins >= w.since
  UNION ALL
  SELECT s.objective_id, w.window_seconds, s.good, s.late
  FROM w JOIN tickwise.objective_starts s ON s.minute >= w.since WHERE s.objective_id = ANY($1)
  UNION ALL
  SELECT a.objective_id, w.window_seconds, 0, 1 FROM active a JOIN w ON a.due >= w.since
)
SELECT o.objective_id, w.window_seconds, coalesce(sum(c.good), 0)::bigint AS good, coalesce(sum(c.late), 0)::bigint AS late
FROM o CROSS JOIN w LEFT JOIN counted c ON c.objective_id = o.objective_id AND c.window_seconds = w.window_seconds
GROUP BY o.objective_id, w.window_seconds
