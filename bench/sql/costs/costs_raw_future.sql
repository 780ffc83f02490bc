-- Store a batch of definitions and their timers. $1 jobs, $2 runs (NULL: recurring), $3 definitions, $4 due times.
WITH n AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[]) AS n(job_id, run_id, spec, due)),
j AS (INSERT INTO raw.jobs SELECT job_id, 'bench', spec FROM n)
INSERT INTO raw.timers SELECT to_timestamp(due), job_id, run_id FROM n;
