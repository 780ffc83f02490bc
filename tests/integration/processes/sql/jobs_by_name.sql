-- Each job.
SELECT job_id, name FROM tickwise.jobs;
