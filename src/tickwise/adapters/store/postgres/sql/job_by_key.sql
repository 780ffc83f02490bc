-- One job by its key. Keyed jobs are lasting ones, and there the key has its index. $1 namespace, $2 key.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
WHERE j.job_id = (SELECT job_id FROM tickwise.jobs_lasting WHERE namespace = $1 AND key = $2)
