-- name: jobs_coming
-- The jobs of a namespace that run next, by the order of all timers and of the namespace's runs that wait. $1 namespace, $2 and $3 window
-- (NULL: open), $4 limit, $5 timers to read at most, $6 labels (NULL: any). Planned once.
WITH w AS MATERIALIZED (
  SELECT coalesce(to_timestamp($2::float8), '-infinity') AS low, coalesce(to_timestamp($3::float8), 'infinity') AS high
),
t AS (
  (SELECT job_id, due FROM tickwise.timers
   WHERE run_id IS NOT NULL AND due >= (SELECT low FROM w) AND due < (SELECT high FROM w) ORDER BY due LIMIT $5)
  UNION ALL
  (SELECT job_id, due FROM (
     SELECT job_id, due, hold FROM tickwise.timers
     WHERE run_id IS NULL AND due >= (SELECT low FROM w) AND due < (SELECT high FROM w) ORDER BY due LIMIT $5) s WHERE hold IS NULL)
  UNION ALL
  (SELECT r.job_id, r.due FROM tickwise.lanes l CROSS JOIN LATERAL (
     SELECT job_id, due, state FROM tickwise.runs WHERE lane = l.lane AND holder = 0 AND ready < 'infinity' ORDER BY ready LIMIT $4) r
   WHERE l.namespace = $1 AND r.state = {RunState.QUEUED} AND r.due >= (SELECT low FROM w) AND r.due < (SELECT high FROM w))
),
c AS MATERIALIZED (
  SELECT e.job_id, e.due FROM (SELECT job_id, min(due) AS due FROM t GROUP BY job_id ORDER BY min(due), job_id OFFSET 0) e
  CROSS JOIN LATERAL (
    SELECT FROM tickwise.jobs j
    WHERE j.job_id = e.job_id AND j.namespace = $1 AND ($6::jsonb[] IS NULL OR j.labels @> ANY($6)) OFFSET 0) j
  ORDER BY e.due, e.job_id LIMIT $4
)
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM c CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown j WHERE j.job_id = c.job_id OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY c.due, c.job_id
