-- name: jobs_add
-- Store new jobs and, with each, its first run (due within the horizon) or its timer (later, or to be decided). The common
-- path: ids are new by construction, so nothing is looked up, and one that repeats fails the whole statement.
-- $1 horizon in seconds, $2 … one array per column; due NULL: now, infinite: never. Of a column whose values are all the same, which
-- most are, one value is sent: the others are NULL then. $14 the namespaces besides `default`: it fails if one takes nothing new.
-- $15 … the entries of the audit log, one for each caller: $22 and $23 are the places of its first job and of its last.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at, tickwise.now() + $1::float8 * interval '1 second' AS horizon),
n AS MATERIALIZED (
  SELECT n.job_id, n.name, n.definition, n.run_id, (SELECT at FROM clock) AS at,
         coalesce(to_timestamp(n.due), (SELECT at FROM clock)) AS fires,
         coalesce(n.namespace, ($3::text[])[1]) AS namespace, coalesce(n.schedule_type, ($5::text[])[1]) AS schedule_type,
         coalesce(n.task_kind, ($6::text[])[1]) AS task_kind, coalesce(n.lane, ($8::int[])[1]) AS lane,
         coalesce(n.created_by, ($9::text[])[1]) AS created_by, coalesce(n.recurring, ($10::boolean[])[1]) AS recurring,
         coalesce(n.lasting, ($13::boolean[])[1]) AS lasting
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[],
              $10::boolean[], $11::uuid[], $12::float8[], $13::boolean[])
    AS n(job_id, namespace, name, schedule_type, task_kind, definition, lane, created_by, recurring, run_id, due, lasting)
  WHERE $14::text[] = '{}' OR (SELECT tickwise.namespaces_open($14))
),
j AS (
  INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind,
                             created_by, definition)
  SELECT at, at, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind, created_by, definition FROM n
),
a AS (
  INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind, target, targets,
                              detail)
  SELECT (SELECT at FROM clock), e.namespace, 'job.created', e.caller_kind, e.caller_id, e.caller, e.address, e.request_id, 'job',
         CASE WHEN e.first = e.last THEN ($2::uuid[])[e.first]::text END,
         CASE WHEN e.first < e.last THEN ($2::uuid[])[e.first:e.last] END, e.detail
  FROM unnest($15::text[], $16::text[], $17::uuid[], $18::text[], $19::text[], $20::text[], $21::text[], $22::int[], $23::int[])
    AS e(namespace, caller_kind, caller_id, caller, address, request_id, detail, first, last)
  RETURNING at, entry, namespace
),
u AS (INSERT INTO tickwise.audit_unsealed (at, entry, namespace) SELECT at, entry, namespace FROM a),
t AS (
  INSERT INTO tickwise.timers (due, job_id, run_id)
  SELECT fires, job_id, run_id FROM n
  WHERE (run_id IS NULL OR fires > (SELECT horizon FROM clock)) AND fires < 'infinity'
),
-- The common case: each job becomes a run, all in one namespace. Their ids are noted as the client sent them.
alike AS MATERIALIZED (
  SELECT {RunState.QUEUED} AS state, ($3::text[])[1] AS namespace, 0::smallint AS attempt, $11::uuid[] AS runs, $2::uuid[] AS jobs,
         cardinality($3::text[]) = 1
           AND (SELECT count(*) = 0 FROM n WHERE run_id IS NULL OR fires > (SELECT horizon FROM clock)) AS yes
  WHERE EXISTS (SELECT FROM n) AND (SELECT tickwise.feed_watched())
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs) FROM alike WHERE yes
  UNION ALL
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM n WHERE (SELECT NOT yes FROM alike) AND run_id IS NOT NULL AND fires <= (SELECT horizon FROM clock) GROUP BY namespace) g
)
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
SELECT fires, greatest(fires, at), at, run_id, job_id, lane, namespace,
       CASE WHEN octet_length(definition) <= 8192 THEN definition END
FROM n WHERE (SELECT count(*) FROM noted) >= 0 AND run_id IS NOT NULL AND fires <= (SELECT horizon FROM clock)
