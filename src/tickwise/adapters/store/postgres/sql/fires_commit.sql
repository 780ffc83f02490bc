-- What was decided for taken timers: they move on or go, and their runs are made, unless such a run lives or has ended.
-- $1 jobs, $2 due times as taken, $3 next due times (NULL: never again); $4 … one array per column of the runs.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
f AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::float8[], $3::float8[]) AS f(job_id, due, next_due)),
held AS MATERIALIZED (
  SELECT t.job_id, f.next_due
  FROM (SELECT job_id, due FROM tickwise.timers WHERE job_id = ANY($1) AND run_id IS NULL OFFSET 0) t JOIN f USING (job_id)
  WHERE t.due = to_timestamp(f.due)
),
moved AS (
  UPDATE tickwise.timers t SET due = to_timestamp(held.next_due)
  FROM held WHERE t.job_id = ANY($1) AND t.job_id = held.job_id AND held.next_due IS NOT NULL
),
ended AS (
  DELETE FROM tickwise.timers WHERE job_id = ANY(ARRAY(SELECT job_id FROM held WHERE next_due IS NULL))
),
r AS (
  INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, trigger, own, namespace, spec, origin)
  SELECT to_timestamp(n.due), greatest(tickwise.place(to_timestamp(n.due)), (SELECT at FROM clock)), (SELECT at FROM clock),
         n.run_id,
         n.job_id, j.lane, n.trigger, n.definition IS NOT NULL, j.namespace,
         coalesce(n.definition, CASE WHEN octet_length(j.definition) <= 8192 THEN j.definition END), n.origin
  FROM unnest($4::uuid[], $5::uuid[], $6::float8[], $7::smallint[], $8::text[], $9::uuid[])
         AS n(job_id, run_id, due, trigger, definition, origin)
  JOIN held USING (job_id)
  CROSS JOIN LATERAL (
    SELECT lane, namespace, definition FROM tickwise.jobs_lasting j WHERE j.job_id = n.job_id OFFSET 0) j
  WHERE (SELECT true FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) IS NULL
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT count(*) FROM r
