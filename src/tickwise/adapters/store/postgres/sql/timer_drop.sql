-- A job fires by schedule no more.
DELETE FROM tickwise.timers WHERE job_id = $1
