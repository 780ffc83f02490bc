-- name: objective_jobs
-- Recurring jobs that may have an objective, of all namespaces, by id. $1 ids above it, $2 at most.
SELECT o.namespace, o.job_id, o.name, o.definition FROM tickwise.jobs_lasting o
WHERE o.recurring AND o.definition LIKE '%"objective_start_seconds":%' AND o.job_id > $1
ORDER BY o.job_id LIMIT $2

-- name: objective_jobs_of
-- As above, of the namespace $1. $2 ids above it, $3 labels (all of one of these; NULL: any), $4 at most, of $5 that are read; and with each
-- the last one of these, if there may be more.
WITH p AS MATERIALIZED (
  SELECT o.namespace, o.job_id, o.name, o.definition, o.labels FROM tickwise.jobs_lasting o
  WHERE o.recurring AND o.definition LIKE '%"objective_start_seconds":%' AND o.namespace = $1 AND o.job_id > $2
  ORDER BY o.job_id LIMIT $5
),
m AS (SELECT p.* FROM p WHERE $3::jsonb[] IS NULL OR p.labels @> ANY($3) ORDER BY p.job_id LIMIT $4)
SELECT m.namespace, m.job_id, m.name, m.definition, r.last_read
FROM (SELECT (SELECT p.job_id FROM p ORDER BY p.job_id OFFSET $5 - 1 LIMIT 1) AS last_read) r LEFT JOIN m ON true
ORDER BY m.job_id
