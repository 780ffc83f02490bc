-- name: jobs_named
-- The lasting jobs, but for one-time ones, whose name holds a text, by the index of names. $1 namespace, $2 the text as a LIKE pattern, $3 at
-- most so many, of all namespaces together, $4 labels (all of one of these), $5 queue. `indexed` NULL: the index is not there, and nothing was read.
WITH present AS MATERIALIZED (
  SELECT true AS yes FROM pg_index i WHERE i.indexrelid = to_regclass('tickwise.jobs_names') AND i.indisvalid
),
found AS MATERIALIZED (
  SELECT job_id, namespace, labels, lane FROM tickwise.jobs_lasting
  WHERE (SELECT yes FROM present) AND schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE' AND lower(name) LIKE lower($2)
),
first AS MATERIALIZED (SELECT * FROM found LIMIT $3)
SELECT (SELECT yes FROM present) AS indexed, count(*) AS looked,
       array_agg(job_id) FILTER (
         WHERE namespace = $1 AND ($4::jsonb[] IS NULL OR labels @> ANY($4))
           AND ($5::text IS NULL OR lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $5))) AS jobs
FROM first

-- name: jobs_named_since
-- The jobs whose place is $3 (NULL: the first) or newer and whose name holds a text. $1 namespace, $2 the text as a LIKE pattern, $4 at most,
-- $5 labels (all of one of these), $6 queue. Planned for each call's own values.
SELECT job_id FROM tickwise.jobs j
WHERE namespace = $1 AND ($3::uuid IS NULL OR job_id >= $3) AND lower(name) LIKE lower($2)
  AND ($5::jsonb[] IS NULL OR labels @> ANY($5))
  AND ($6::text IS NULL OR lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $6))
UNION ALL
SELECT j.job_id FROM tickwise.jobs_placed p
CROSS JOIN LATERAL (SELECT job_id, name, labels, lane FROM tickwise.jobs j WHERE j.job_id = p.job_id OFFSET 0) j
WHERE p.namespace = $1 AND p.listed >= $3 AND p.job_id < $3 AND lower(j.name) LIKE lower($2)
  AND ($5::jsonb[] IS NULL OR j.labels @> ANY($5))
  AND ($6::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $6))
LIMIT $4

-- name: jobs_reach
-- The place of the job that is $3 places below $2 in the list of all namespaces; no row: there are fewer. $1 the default namespace.
-- Planned once.
SELECT listed FROM (
  (SELECT job_id AS listed FROM tickwise.jobs j
   WHERE j.job_id < $2 AND (j.digest IS NULL OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0))
   ORDER BY job_id DESC)
  UNION ALL
  (SELECT p.listed FROM tickwise.jobs_placed p WHERE p.namespace = $1 AND p.listed < $2 ORDER BY p.listed DESC)) s
ORDER BY listed DESC OFFSET $3 LIMIT 1

-- name: jobs_reach_of
-- The place of the job that is $3 places below $2 in the list of a namespace other than `default`, by its index. $1 the namespace.
SELECT listed FROM (
  (SELECT job_id AS listed FROM tickwise.jobs j
   WHERE j.namespace = $1 AND j.namespace <> 'default' AND j.job_id < $2
     AND (j.digest IS NULL OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0))
   ORDER BY job_id DESC)
  UNION ALL
  (SELECT p.listed FROM tickwise.jobs_placed p WHERE p.namespace = $1 AND p.listed < $2 ORDER BY p.listed DESC)) s
ORDER BY listed DESC OFFSET $3 LIMIT 1

-- name: runs_reach
-- The id of the run that is $3 places below $2 among those of all namespaces; no row: there are fewer. $1 is not asked for. Planned once.
SELECT run_id FROM tickwise.runs_shown WHERE run_id < $2 AND $1::text IS NOT NULL ORDER BY run_id DESC OFFSET $3 LIMIT 1

-- name: runs_reach_of
-- The id of the run that is $3 places below $2 in a namespace other than `default`, by its index. $1 the namespace.
SELECT run_id FROM tickwise.runs_shown
WHERE namespace = $1 AND namespace <> 'default' AND run_id < $2 ORDER BY run_id DESC OFFSET $3 LIMIT 1
