-- One-time jobs outside the partitions that are dropped, made before $1, with nothing to come and nothing on record any more;
-- at most $2 of them. How many.
WITH over AS MATERIALIZED (
  SELECT job_id, lasting FROM tickwise.jobs j
  WHERE tableoid IN ('tickwise.jobs_lasting'::regclass, 'tickwise.jobs_rest'::regclass)
    AND NOT recurring AND created < to_timestamp($1::float8)
    AND NOT EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
    AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id)
    AND NOT EXISTS (SELECT FROM tickwise.history h WHERE h.job_id = j.job_id)
  LIMIT $2
  FOR UPDATE SKIP LOCKED
),
gone AS (
  DELETE FROM tickwise.jobs j USING over
  WHERE j.job_id = over.job_id AND j.lasting = over.lasting
    AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id)
  RETURNING j.job_id
),
placed AS (
  DELETE FROM tickwise.jobs_placed p USING gone WHERE p.job_id = gone.job_id
)
SELECT count(*) FROM gone
