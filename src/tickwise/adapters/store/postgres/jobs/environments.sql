-- name: environments_declare
-- Note declarations. $1 namespaces, $2 digests, $3 queues, $4 labels of each as JSON arrays, $5 declarations, $6 jobs.
INSERT INTO tickwise.environments (declared_at, namespace, digest, queue, requires, declaration, job_id)
SELECT tickwise.now(), n, d, q, ARRAY(SELECT jsonb_array_elements_text(r::jsonb)), t, j
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[]) u(n, d, q, r, t, j)
ORDER BY n, d, q, r
ON CONFLICT (namespace, digest, queue, requires) DO UPDATE SET declared_at = excluded.declared_at, job_id = excluded.job_id

-- name: environments_trim
-- Drop all but the $2 rows of the namespace $1 that were declared last.
DELETE FROM tickwise.environments WHERE namespace = $1 AND (digest, queue, requires) NOT IN (
  SELECT digest, queue, requires FROM tickwise.environments WHERE namespace = $1
  ORDER BY declared_at DESC, digest, queue, requires LIMIT $2)

-- name: environments_wanted
-- Environments for an executor. $1 its queues, $2 its labels, $3 its namespaces or NULL, $4 at most, $5 rows looked at of each queue.
SELECT namespace, declaration, failed FROM (
  SELECT namespace, digest, min(declaration) AS declaration, bool_or(failed_at IS NOT NULL) AS failed, min(due) AS due,
         max(declared_at) AS declared_at,
         row_number() OVER (PARTITION BY namespace ORDER BY min(due), max(declared_at) DESC, digest) AS turn
  FROM unnest($1::text[]) q(queue) CROSS JOIN LATERAL (
    SELECT * FROM tickwise.environments_wanted w WHERE w.queue = q.queue ORDER BY w.declared_at DESC LIMIT $5) w
  WHERE w.requires <@ $2::text[] AND ($3::text[] IS NULL OR w.namespace = ANY($3))
  GROUP BY namespace, digest) e
ORDER BY turn, due, declared_at DESC, namespace LIMIT $4

-- name: environments_report
-- Put a failed build on record, or take it off. $1 namespace, $2 digest, $3 reason or NULL, $4 detail, $5 executor.
UPDATE tickwise.environments
SET failed_at = CASE WHEN $3::text IS NOT NULL THEN tickwise.now() END, reason = $3, detail = $4, executor = $5
WHERE namespace = $1 AND digest = $2

-- name: environments_fault
-- The failed build on record. $1 namespace, $2 digest.
SELECT reason, detail, extract(epoch FROM failed_at)::float8 AS failed_at, executor FROM tickwise.environments
WHERE namespace = $1 AND digest = $2 AND failed_at IS NOT NULL ORDER BY failed_at DESC LIMIT 1

-- name: environments_forget
-- Drop what was not declared for $1 seconds and has no timer; how many.
WITH d AS (
  DELETE FROM tickwise.environments e WHERE declared_at < tickwise.now() - $1::float8 * interval '1 second'
    AND NOT EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = e.job_id)
  RETURNING 1
)
SELECT count(*) FROM d
