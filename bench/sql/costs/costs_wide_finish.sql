-- Runs go, history comes, in the product's tables by a bare statement. $1 runs.
WITH d AS (
  DELETE FROM tickwise.runs WHERE run_id = ANY ($1::uuid[]) AND holder = 1
  RETURNING due, queued, claimed, holder, token, run_id, job_id, state, attempt, failures, crashes, trigger, namespace)
INSERT INTO tickwise.history (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                              crashes, trigger, namespace)
SELECT due, queued, claimed, statement_timestamp(), statement_timestamp(), holder, token, run_id, job_id, 5, state, attempt, failures,
       crashes, trigger, namespace FROM d;
