-- A job's timer is held back from where it stands. $1 job, $2 until (NULL: until somebody lets it go).
UPDATE tickwise.timers
SET since = CASE WHEN hold IS NULL THEN due ELSE since END, hold = 'paused', run_id = NULL,
    due = coalesce(to_timestamp($2::float8), 'infinity')
WHERE job_id = $1
