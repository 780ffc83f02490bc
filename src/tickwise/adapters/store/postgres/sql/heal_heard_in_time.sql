-- A request to stop what nobody holds goes. $1 run.
DELETE FROM tickwise.cancel_requests c
WHERE run_id = $1
  AND (SELECT true FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token OFFSET 0) IS NULL
