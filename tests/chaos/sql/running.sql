-- The recorded starts of these jobs. $1 the jobs.
SELECT e.executor, r.run_id, r.token FROM tickwise.runs r JOIN tickwise.executors e ON e.executor = r.holder
WHERE r.state = 3 AND r.job_id = ANY($1::uuid[]);
