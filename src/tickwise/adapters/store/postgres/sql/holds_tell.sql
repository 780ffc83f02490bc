-- What is held of queues that stand still and has not begun is asked back, once for each hold.
WITH h AS (
  UPDATE tickwise.holds SET told = true WHERE NOT told AND begun <= (SELECT tickwise.now()) RETURNING namespace, queue, until
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT tickwise.now(), r.token, r.holder, r.run_id, 'return'
FROM h JOIN tickwise.lanes l ON l.namespace = h.namespace AND l.queue = h.queue JOIN tickwise.runs r ON r.lane = l.lane
WHERE h.until > (SELECT tickwise.now()) AND r.state = 2
ORDER BY r.run_id
ON CONFLICT (run_id) DO UPDATE
SET kind = 'return', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token
