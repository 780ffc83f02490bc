-- A run that lives although it ended goes, and leaves what is on record. $1 run. What it may leave to others.
DELETE FROM tickwise.runs r
WHERE run_id = $1 AND (SELECT true FROM tickwise.history h WHERE h.run_id = r.run_id OFFSET 0)
RETURNING job_id, namespace, CASE state WHEN 3 THEN limit_key END AS limit_key
