-- Due timers of schedules move on by their period and leave a run each. $1 limit, $2 period in seconds.
WITH t AS (
  UPDATE raw.timers SET due = due + $2::float8 * interval '1 second' WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM raw.timers WHERE due <= statement_timestamp() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING *)
INSERT INTO raw.runs (run_id, job_id, ready, spec)
SELECT gen_random_uuid(), t.job_id, t.due, (SELECT spec FROM raw.jobs j WHERE j.job_id = t.job_id) FROM t;
