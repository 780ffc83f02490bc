-- Make runs besides those of timers, unless they live or have ended already. $1 … one array per column; with $9, due
-- times in the past are raised to now, and stay the nominal ones: a run is named by that time, and searches by due time rely on it. A
-- definition of NULL is the job's.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at)
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
