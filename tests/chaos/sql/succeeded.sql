-- How many runs of a job have succeeded. $1 the job.
SELECT count(*) FROM tickwise.history WHERE job_id = $1::uuid AND state::int = 5;
