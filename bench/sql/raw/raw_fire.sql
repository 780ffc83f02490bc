-- Schedules due before $2 (Unix seconds) move on by ten seconds, and each gets a run. $1 limit.
WITH moved AS (
  UPDATE raw.schedules SET due = due + interval '10 seconds'
  WHERE ctid = ANY (ARRAY(SELECT ctid FROM raw.schedules WHERE due < to_timestamp($2) ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING job_id, due - interval '10 seconds' AS at, spec
)
INSERT INTO raw.runs (run_id, job_id, ready, spec) SELECT gen_random_uuid(), job_id, at, spec FROM moved;
