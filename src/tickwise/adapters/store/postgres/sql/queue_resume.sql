-- A queue stands still no more, and what was asked back because it did is not any more (as `queue_unask`; what is asked back in this very
-- moment goes back, and is claimed again). $1 namespace, $2 queue. Whether it did or would have.
WITH unasked AS (
  DELETE FROM tickwise.cancel_requests c
  WHERE kind = 'return' AND error IS NULL AND (
    SELECT true FROM tickwise.runs r JOIN tickwise.lanes l ON l.lane = r.lane
    WHERE r.run_id = c.run_id AND l.namespace = $1 AND l.queue = $2 OFFSET 0)
)
DELETE FROM tickwise.holds WHERE namespace = $1 AND queue = $2 RETURNING until > tickwise.now()
