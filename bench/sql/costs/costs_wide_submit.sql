-- A definition and a run each, in the product's tables by a bare statement. $1 jobs, $2 runs, $3 definitions.
WITH n AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS n(job_id, run_id, spec)),
j AS (
  INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind,
                             created_by, definition)
  SELECT statement_timestamp(), statement_timestamp(), job_id, 1, false, false, 'default', 'bench', 'IMMEDIATE', 'function',
         'bench', spec FROM n)
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
SELECT statement_timestamp(), statement_timestamp(), statement_timestamp(), run_id, job_id, 1, 'default', spec FROM n;
