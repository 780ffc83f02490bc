-- Due timers of one-time jobs become runs. $1 limit.
WITH t AS (
  DELETE FROM raw.timers WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM raw.timers WHERE due <= statement_timestamp() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING *)
INSERT INTO raw.runs (run_id, job_id, ready, spec)
SELECT t.run_id, t.job_id, t.due, (SELECT spec FROM raw.jobs j WHERE j.job_id = t.job_id) FROM t;
