-- When a job fires next. $1 job, $2 due, $3 the name of that fire for a one-time job; one that lives or has ended is not named
-- again.
INSERT INTO tickwise.timers (job_id, due, run_id)
SELECT $1, to_timestamp($2::float8), $3::uuid
WHERE $3::uuid IS NULL OR NOT EXISTS (SELECT FROM tickwise.runs_shown r WHERE r.run_id = $3)
ON CONFLICT (job_id) DO UPDATE SET due = excluded.due, run_id = excluded.run_id
