-- What was asked back because a queue stood still is not any more; a pause of its job, which says so in `error`, is no matter of
-- the queue. $1 namespace, $2 queue.
DELETE FROM tickwise.cancel_requests c
WHERE kind = 'return' AND error IS NULL AND (
  SELECT true FROM tickwise.runs r JOIN tickwise.lanes l ON l.lane = r.lane
  WHERE r.run_id = c.run_id AND l.namespace = $1 AND l.queue = $2 OFFSET 0)
