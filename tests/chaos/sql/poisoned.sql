-- What was quarantined.
SELECT h.run_id, j.name, h.crashes FROM tickwise.history h JOIN tickwise.jobs j USING (job_id) WHERE h.reason = 'poison';
