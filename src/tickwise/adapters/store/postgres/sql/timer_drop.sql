-- A job fires by schedule no more; how many runs its schedule has made.
DELETE FROM tickwise.timers WHERE job_id = $1 RETURNING coalesce(fired, 0)
