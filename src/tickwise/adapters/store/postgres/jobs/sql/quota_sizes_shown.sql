-- name: quota_sizes_shown
-- The active jobs of a namespace that last, and the bytes of their definitions and of stored tasks, as `quota_count` has them, but bounded: of
-- a table with more than $2 pages, $3 jobs at most are counted by the index of namespaces, which leaves out the default one; if there are
-- more, $2 pages are read, and what they hold is grown to the table's size. $1 namespace. Returns jobs, bytes, and whether all were counted.
WITH size AS MATERIALIZED (
  SELECT greatest(1, pg_relation_size('tickwise.jobs_lasting') / current_setting('block_size')::bigint)::float8 AS pages
),
few AS MATERIALIZED (
  SELECT octet_length(j.definition) AS bytes FROM tickwise.jobs_lasting j
  WHERE (SELECT pages > $2 FROM size) AND j.namespace = $1 AND j.namespace <> 'default' AND j.lasting AND j.standing <> {JobStanding.CANCELLED}
    AND (j.schedule_type = 'ON_DEMAND'
         OR EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
         OR EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id))
  LIMIT $3::bigint + 1
),
known AS MATERIALIZED (
  SELECT count(*) AS jobs, coalesce(sum(bytes), 0) AS bytes, $1 <> 'default' AND (SELECT pages > $2 FROM size) AND count(*) <= $3 AS are_all FROM few
),
seen AS MATERIALIZED (
  SELECT count(*) AS jobs, coalesce(sum(octet_length(j.definition)), 0) AS bytes
  FROM tickwise.jobs_lasting j TABLESAMPLE SYSTEM (least(100, 100 * $2::float8 / (SELECT pages FROM size))) REPEATABLE (0)
  WHERE NOT (SELECT are_all FROM known) AND j.namespace = $1 AND j.lasting AND j.standing <> {JobStanding.CANCELLED}
    AND (j.schedule_type = 'ON_DEMAND'
         OR EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
         OR EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id))
),
found AS (
  SELECT CASE WHEN known.are_all THEN known.jobs ELSE seen.jobs * greatest(1, size.pages / $2) END AS jobs,
         CASE WHEN known.are_all THEN known.bytes ELSE seen.bytes * greatest(1, size.pages / $2) END AS bytes,
         known.are_all OR size.pages <= $2 AS are_all
  FROM known, seen, size
)
SELECT jobs::bigint, (bytes + (SELECT coalesce(sum(octet_length(task)), 0) FROM tickwise.tasks WHERE namespace = $1))::bigint, are_all FROM found
