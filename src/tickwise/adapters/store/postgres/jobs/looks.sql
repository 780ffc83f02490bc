-- name: runs_latest
-- The newest runs of each of the jobs $2 of the namespace $1, $3 of each at most, without skips of a time after $4 and without texts. $5
-- labels (NULL: any). Planned once.
SELECT r.* FROM unnest($2::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
         failures, crashes, executor, reason, NULL::text AS error, NULL::text AS result, origin, NULL::text AS definition, nominal_at,
         blocked, limit_key, paced, cancel_asked, cancel_heard, cancel_error, occurrences, until
  FROM (
    -- Those under way by the index of their job, as in `runs_newest_of_job`; then those that have ended.
    SELECT * FROM tickwise.runs_shown s
    WHERE s.namespace = $1 AND s.ended_at IS NULL AND s.run_id = ANY((
      SELECT CASE WHEN (SELECT count(*) <= 1000 FROM (SELECT FROM tickwise.runs l WHERE l.job_id = q.job_id LIMIT 1001) f)
        THEN ARRAY(SELECT run_id FROM (SELECT run_id FROM tickwise.runs l WHERE l.job_id = q.job_id OFFSET 0) f ORDER BY run_id DESC LIMIT $3)
        ELSE ARRAY(SELECT run_id FROM tickwise.runs l WHERE l.job_id = q.job_id ORDER BY run_id DESC LIMIT $3) END)::uuid[])
    UNION ALL
    (SELECT * FROM tickwise.runs_shown s
     WHERE s.job_id = q.job_id AND s.namespace = $1 AND s.ended_at IS NOT NULL
       AND (s.state <> {RunState.SKIPPED} OR s.nominal_at <= $4::float8)
     ORDER BY run_id DESC LIMIT $3)) s
  ORDER BY run_id DESC LIMIT $3) r
WHERE $5::jsonb[] IS NULL OR EXISTS (SELECT FROM tickwise.jobs j WHERE j.job_id = q.job_id AND j.labels @> ANY($5) OFFSET 0)

-- name: jobs_of
-- The jobs $2 of the namespace $1. $3 labels (NULL: any). Planned once.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM unnest($2::uuid[]) q(job_id)
CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown s WHERE s.job_id = q.job_id AND s.namespace = $1 OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
WHERE $3::jsonb[] IS NULL OR j.labels_stored @> ANY($3)

-- name: jobs_coming_of
-- The jobs of a namespace with few jobs that run next: each is looked at. The parameters as in `jobs_coming`; $5 jobs to read at most. Planned for each call's own values.
WITH w AS MATERIALIZED (
  SELECT coalesce(to_timestamp($2::float8), '-infinity') AS low, coalesce(to_timestamp($3::float8), 'infinity') AS high
),
f AS MATERIALIZED (
  SELECT job_id FROM tickwise.jobs WHERE namespace = $1 AND ($6::jsonb[] IS NULL OR labels @> ANY($6)) LIMIT $5
),
c AS MATERIALIZED (
  SELECT f.job_id, min(t.due) AS due FROM f
  CROSS JOIN LATERAL (
    SELECT due FROM tickwise.timers WHERE job_id = f.job_id AND (run_id IS NOT NULL OR hold IS NULL)
    UNION ALL
    SELECT due FROM tickwise.runs WHERE job_id = f.job_id AND holder = 0 AND state = {RunState.QUEUED} AND ready < 'infinity') t
  WHERE t.due >= (SELECT low FROM w) AND t.due < (SELECT high FROM w)
  GROUP BY f.job_id ORDER BY min(t.due), f.job_id LIMIT $4
)
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM c CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown j WHERE j.job_id = c.job_id OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY c.due, c.job_id

-- name: jobs_ending
-- The jobs of the namespace $1 whose ids end with $2: of those that last or are planned all, of others those with ids from $3 on. $4 at
-- most, $5 labels (NULL: any). All of these are looked at. Planned for each call's own values.
SELECT j.job_id AS id FROM tickwise.jobs j
WHERE j.namespace = $1 AND right(j.job_id::text, length($2::text)) = $2 AND ($5::jsonb[] IS NULL OR j.labels @> ANY($5))
  AND (j.lasting OR j.job_id >= $3::uuid OR EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
       OR EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id))
ORDER BY j.job_id DESC LIMIT $4

-- name: runs_ending
-- The runs of the namespace $1 whose ids end with $2: those under way, and ended ones with ids from $3 on. $4 at most, $5 labels of their
-- jobs (NULL: any). All of these are looked at. Planned for each call's own values.
SELECT r.run_id AS id FROM (
  SELECT run_id, job_id FROM tickwise.runs WHERE namespace = $1 AND right(run_id::text, length($2::text)) = $2
  UNION ALL
  SELECT run_id, job_id FROM tickwise.history
  WHERE namespace = $1 AND run_id >= $3::uuid AND right(run_id::text, length($2::text)) = $2) r
WHERE $5::jsonb[] IS NULL OR EXISTS (SELECT FROM tickwise.jobs j WHERE j.job_id = r.job_id AND j.labels @> ANY($5) OFFSET 0)
ORDER BY r.run_id DESC LIMIT $4
