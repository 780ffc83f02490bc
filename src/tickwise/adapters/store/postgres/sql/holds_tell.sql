-- What is held of queues that stand still and has not begun is asked back. A hold is told of until it stands for a few seconds: a claim
-- that began before it, and saw nothing of it, may take runs after the first look.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
told AS (
  UPDATE tickwise.holds SET told = true WHERE NOT told AND begun <= (SELECT at FROM clock) - interval '5 seconds'
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT (SELECT at FROM clock), r.token, r.holder, r.run_id, 'return'
FROM tickwise.holds h
CROSS JOIN LATERAL (SELECT lane FROM tickwise.lanes l WHERE l.namespace = h.namespace AND l.queue = h.queue OFFSET 0) l
CROSS JOIN LATERAL (SELECT run_id, token, holder FROM tickwise.runs r WHERE r.lane = l.lane AND r.state = 2 OFFSET 0) r
WHERE NOT h.told AND h.begun <= (SELECT at FROM clock) AND h.until > (SELECT at FROM clock)
ORDER BY r.run_id
ON CONFLICT (run_id) DO UPDATE
SET kind = 'return', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token
