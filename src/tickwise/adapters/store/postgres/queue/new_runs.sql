-- name: runs_make
-- Make runs besides those of timers, unless they are active or have ended already. $1 … one array per column; with $9, due
-- times in the past are raised to now, and stay the nominal ones: a run is named by that time, and searches by due time rely on it. A
-- definition of NULL is the job's. Returns how many came.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
r AS (
  INSERT INTO tickwise.runs (due, nominal, ready, queued, run_id, job_id, lane, trigger, overlap, own, namespace, spec, origin)
  SELECT n.at, nullif(coalesce(to_timestamp(n.nominal), to_timestamp(n.due)), n.at), greatest(n.at, (SELECT at FROM clock)), (SELECT at FROM clock), n.run_id,
         n.job_id, j.lane, n.trigger, n.overlap, n.definition IS NOT NULL, j.namespace,
         coalesce(n.definition, CASE WHEN octet_length(j.definition) <= 8192 THEN j.definition END), n.origin
  FROM (
    SELECT n.*, CASE WHEN $9::boolean THEN greatest(to_timestamp(due), (SELECT at FROM clock)) ELSE to_timestamp(due) END AS at
    FROM unnest($1::uuid[], $2::uuid[], $3::float8[], $4::smallint[], $5::text[], $6::uuid[], $7::float8[], $8::smallint[])
           AS n(job_id, run_id, due, trigger, definition, origin, nominal, overlap)) n
  CROSS JOIN LATERAL (SELECT lane, namespace, definition FROM tickwise.jobs j WHERE j.job_id = n.job_id OFFSET 0) j
  WHERE (SELECT true FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) IS NULL
  ON CONFLICT DO NOTHING
  RETURNING run_id, job_id, namespace
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM r WHERE CASE WHEN EXISTS (SELECT FROM r) THEN (SELECT tickwise.feed_watched()) END GROUP BY namespace) g
)
SELECT count(*) FROM r WHERE (SELECT count(*) FROM noted) >= 0

-- name: skips_make
-- Record occurrences that do not run, unless a run of that name is active or has ended. $1 job, $2 … one array per column, the last: their
-- origins.
INSERT INTO tickwise.history (due, until, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, occurrences, namespace, reason, error, origin)
SELECT to_timestamp(n.nominal), CASE WHEN n.occurrences > 1 THEN to_timestamp(n.until) END, c.at, c.at, 0, 0, n.run_id, j.job_id, {RunState.SKIPPED}, {RunState.QUEUED},
       0, 0, 0, n.trigger, nullif(n.occurrences, 1), j.namespace, n.reason, n.error, n.origin
FROM unnest($2::uuid[], $3::float8[], $4::float8[], $5::int[], $6::text[], $7::text[], $8::smallint[], $9::uuid[])
       AS n(run_id, nominal, until, occurrences, reason, error, trigger, origin)
CROSS JOIN (SELECT tickwise.now() AS at) c
CROSS JOIN (SELECT job_id, namespace FROM tickwise.jobs WHERE job_id = $1) j
WHERE NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = n.run_id)
ON CONFLICT DO NOTHING
