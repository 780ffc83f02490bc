-- When each job's run started.
SELECT job_id, extract(epoch FROM started)::float8 AS started FROM tickwise.history;
