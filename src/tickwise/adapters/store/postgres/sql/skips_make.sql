-- Put occurrences that do not run on record, unless a run of that name lives or has ended. $1 job, $2 … one array per column, the last: their
-- origins.
INSERT INTO tickwise.history (due, until, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, occurrences, namespace, reason, error, origin)
SELECT to_timestamp(n.nominal), CASE WHEN n.occurrences > 1 THEN to_timestamp(n.until) END, c.at, c.at, 0, 0, n.run_id, j.job_id, 8, 1,
       0, 0, 0, n.trigger, nullif(n.occurrences, 1), j.namespace, n.reason, n.error, n.origin
FROM unnest($2::uuid[], $3::float8[], $4::float8[], $5::int[], $6::text[], $7::text[], $8::smallint[], $9::uuid[])
       AS n(run_id, nominal, until, occurrences, reason, error, trigger, origin)
CROSS JOIN (SELECT tickwise.now() AS at) c
CROSS JOIN (SELECT job_id, namespace FROM tickwise.jobs WHERE job_id = $1) j
WHERE NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = n.run_id)
ON CONFLICT DO NOTHING
