-- One job with what follows from its timers and runs. $1 namespace, $2 job.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
WHERE j.job_id = $2 AND j.namespace = $1
