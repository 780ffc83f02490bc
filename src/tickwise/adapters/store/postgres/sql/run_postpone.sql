-- A free run that has not begun and waits for no other one is due at another time, and what is before it is looked at anew then;
-- it asks for another slot under its rate. -- $1 run, $2 namespace, $3 due. Its job; no row if it is no such run.
UPDATE tickwise.runs r
SET due = to_timestamp($3::float8), nominal = nullif(coalesce(nominal, due), to_timestamp($3)),
    ready = greatest((SELECT tickwise.now()), to_timestamp($3)), overlap = abs(overlap),
    slot = NULL, rate_key = NULL, limit_key = NULL, place = NULL
WHERE run_id = $1 AND namespace = $2 AND state = 1 AND NOT blocked
  AND NOT EXISTS (SELECT FROM tickwise.attempts a WHERE a.run_id = r.run_id)
RETURNING job_id
