-- A job's active runs stay as they are until this transaction ends.
SELECT FROM tickwise.runs WHERE job_id = $1 ORDER BY run_id FOR UPDATE
