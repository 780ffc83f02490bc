-- Jobs in which a run waits for another one.
SELECT DISTINCT job_id FROM tickwise.runs WHERE blocked AND limit_key IS NULL
