-- How many runs of one job are held by the executors of one name. $1 the name, $2 the job.
SELECT count(*) FROM tickwise.runs r JOIN tickwise.executors e ON e.executor = r.holder
WHERE e.name = $1 AND r.job_id = $2::uuid;
