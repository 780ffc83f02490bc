-- A job's new definition. $1 job, $2 … its columns.
UPDATE tickwise.jobs
SET version = version + 1, updated = tickwise.now(), name = $2, key = $3, schedule_type = $4, task_kind = $5,
    definition = $6, lane = $7, labels = $8::jsonb, owner = $9, calendars = $10::text[]
WHERE job_id = $1
