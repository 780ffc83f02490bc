-- What came of each run.
SELECT j.name, h.reason,
       (ARRAY['QUEUED', 'DISPATCHED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED', 'SKIPPED'])[h.state] AS state
FROM tickwise.history h JOIN tickwise.jobs j USING (job_id);
