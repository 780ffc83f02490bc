-- How many runs have ended of the load beside which something else is done.
SELECT count(*) FROM tickwise.history JOIN tickwise.jobs USING (job_id) WHERE name LIKE 'load %';
