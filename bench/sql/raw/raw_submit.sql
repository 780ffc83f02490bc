-- Queue a batch: the definition and its run.
WITH n AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS n(job_id, run_id, spec)),
     j AS (INSERT INTO raw.jobs SELECT job_id, 'bench', spec FROM n)
INSERT INTO raw.runs (run_id, job_id, ready, spec) SELECT run_id, job_id, statement_timestamp(), spec FROM n;
