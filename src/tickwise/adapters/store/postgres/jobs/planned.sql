-- name: planned_candidates
-- The jobs of a namespace, if they are few: at most $2 of them, by id. $1 namespace.
SELECT job_id FROM tickwise.jobs WHERE namespace = $1 ORDER BY job_id LIMIT $2

-- name: planned_due
-- The jobs whose timer is due in a window, in the order of these times, and what is known: how many timers were looked at, and the time of
-- the last. $1 and $2 the window, $3 jobs (NULL: any), $4 the most timers that are looked at, $5 namespace, $6 part of the name (as a LIKE
-- pattern), $7 labels (all of one of these), $8 queue. Planned for each call's own values.
WITH looked AS MATERIALIZED (
  SELECT job_id, due FROM (
    (SELECT job_id, due FROM tickwise.timers
     WHERE $3::uuid[] IS NULL AND run_id IS NULL AND due >= to_timestamp($1) AND due < to_timestamp($2) ORDER BY due LIMIT $4)
    UNION ALL
    (SELECT job_id, due FROM tickwise.timers
     WHERE $3::uuid[] IS NULL AND run_id IS NOT NULL AND due >= to_timestamp($1) AND due < to_timestamp($2) ORDER BY due LIMIT $4)
    UNION ALL
    (SELECT job_id, due FROM tickwise.timers WHERE job_id = ANY($3) AND due >= to_timestamp($1) AND due < to_timestamp($2))) s
  ORDER BY due, job_id LIMIT $4)
SELECT count(*) AS looked, date_part('epoch', max(due)) AS last,
       coalesce(array_agg(job_id ORDER BY due, job_id) FILTER (WHERE wanted), '{}') AS job_ids,
       coalesce(array_agg(date_part('epoch', due) ORDER BY due, job_id) FILTER (WHERE wanted), '{}') AS dues
FROM (
  SELECT t.job_id, t.due, EXISTS (
    SELECT FROM tickwise.jobs j WHERE j.job_id = t.job_id AND j.namespace = $5
      AND ($6::text IS NULL OR lower(j.name) LIKE lower($6))
      AND ($7::jsonb[] IS NULL OR j.labels @> ANY($7))
      AND ($8::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $5 AND queue = $8))
    OFFSET 0) AS wanted
  FROM looked t) w

-- name: planned_jobs
-- These jobs of a namespace, in this order. $1 namespace, $2 jobs. Planned once.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed,
       octet_length(j.definition) AS bytes, w.place
FROM unnest($2::uuid[]) WITH ORDINALITY AS w (job_id, place)
CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown s WHERE s.job_id = w.job_id AND s.namespace = $1 OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY place
