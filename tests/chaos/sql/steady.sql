-- How many runs have ended of the load that goes on all the time.
SELECT count(*) FROM tickwise.history JOIN tickwise.jobs USING (job_id) WHERE name LIKE 'steady %';
