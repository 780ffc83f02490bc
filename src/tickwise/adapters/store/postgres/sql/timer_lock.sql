-- Where a job's schedule stands, and nobody moves it until this transaction ends. $1 job.
SELECT date_part('epoch', due) AS due, date_part('epoch', since) AS since, hold, coalesce(fired, 0) AS fired,
       date_part('epoch', minute) AS minute, coalesce(in_minute, 0) AS in_minute, run_id
FROM tickwise.timers WHERE job_id = $1 FOR UPDATE
