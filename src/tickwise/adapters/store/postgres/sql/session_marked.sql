-- Fails, by a division by zero, in a session that is not marked.
SELECT 1 / (current_setting('tickwise.probe', true) IS NOT DISTINCT FROM 'on')::int
