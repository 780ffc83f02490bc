-- Requests to stop attempts that are over. $1 executor, $2 runs.
DELETE FROM tickwise.cancel_requests c
WHERE holder = $1 AND run_id = ANY($2::uuid[])
  AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token)
