-- Whether the run of a job has ended. $1 the job.
SELECT count(*) FROM tickwise.history WHERE job_id = $1::uuid;
