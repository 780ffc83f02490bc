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

-- name: objectives_lock
-- Let nobody else add objectives to a namespace until this transaction ends. $1 namespace.
SELECT pg_advisory_xact_lock(hashtextextended($1::text, 34))

-- name: objectives_count
-- The number of objectives of the namespace $1.
SELECT count(*) FROM tickwise.objectives WHERE namespace = $1

-- name: objective_add
-- Store an objective. $1 id, $2 namespace, $3 name, $4 seconds, $5 ratio, $6 priority, $7 labels, $8 who made it.
INSERT INTO tickwise.objectives (created, objective_id, namespace, name, start_within, ratio, priority, labels, created_by)
VALUES (tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8)

-- name: objective_get
-- One objective. $1 id.
SELECT objective_id, namespace, name, start_within, ratio, priority, labels::text AS labels, date_part('epoch', created) AS created_at, created_by
FROM tickwise.objectives WHERE objective_id = $1

-- name: objective_remove
-- Remove an objective, with its counts. $1 namespace, $2 id.
DELETE FROM tickwise.objectives WHERE namespace = $1 AND objective_id = $2 RETURNING true

-- name: objectives_find
-- Objectives by id. $1 namespace (NULL: all), $2 ids above it, $3 at most.
SELECT objective_id, namespace, name, start_within, ratio, priority, labels::text AS labels, date_part('epoch', created) AS created_at, created_by
FROM tickwise.objectives WHERE ($1::text IS NULL OR namespace = $1) AND objective_id > $2 ORDER BY objective_id LIMIT $3

-- name: objectives_fold_lock
-- Take the right to fold, which one transaction has at a time. False: another one has it.
SELECT pg_try_advisory_xact_lock(8388353, 34)

-- name: objectives_fold
-- Add the oldest $1 counts that ends left to those by minute and by hour; how many there were.
WITH gone AS (
  DELETE FROM tickwise.objective_starts WHERE ctid = ANY(ARRAY(SELECT s.ctid FROM tickwise.objective_starts s LIMIT $1))
  RETURNING minute, objective_id, good, late
),
added AS (
  INSERT INTO tickwise.objective_counts AS c (objective_id, seconds, begins, good, late)
  SELECT g.objective_id, w.seconds, date_bin(w.seconds * interval '1 second', g.minute, 'epoch'), sum(g.good), sum(g.late)
  FROM gone g CROSS JOIN (VALUES (60), (3600)) w(seconds)
  WHERE EXISTS (SELECT FROM tickwise.objectives o WHERE o.objective_id = g.objective_id)
  GROUP BY 1, 2, 3
  ON CONFLICT (objective_id, seconds, begins) DO UPDATE SET good = c.good + excluded.good, late = c.late + excluded.late
)
SELECT count(*) FROM gone

-- name: objectives_trim
-- Drop the counts by minute of more than $1 seconds ago, and those by hour of more than $2.
DELETE FROM tickwise.objective_counts c USING tickwise.objectives o
WHERE c.objective_id = o.objective_id
  AND (c.seconds = 60 AND c.begins < tickwise.now() - $1::float8 * interval '1 second'
    OR c.seconds = 3600 AND c.begins < tickwise.now() - $2::float8 * interval '1 second')
