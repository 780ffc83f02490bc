-- Fails, by a division by zero, in a session that is marked.
SELECT 1 / (current_setting('tickwise.probe', true) IS DISTINCT FROM 'on')::int
