-- How many runs of some jobs have not ended. $1 the jobs.
SELECT count(*) FROM tickwise.runs WHERE job_id = ANY($1::uuid[]);
