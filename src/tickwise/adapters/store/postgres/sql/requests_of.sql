-- What is asked of the holders of these runs now. $1 runs.
SELECT c.run_id, date_part('epoch', c.asked) AS asked_at, date_part('epoch', c.heard) AS heard_at, c.error
FROM tickwise.cancel_requests c
WHERE c.run_id = ANY($1::uuid[]) AND c.kind <> 'return'
  AND (SELECT r.holder = c.holder AND r.token = c.token FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0)
