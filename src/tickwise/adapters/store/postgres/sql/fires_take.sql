-- Timers that need a decision and are due within the horizon, the earliest first, held by this transaction. $1 horizon in seconds,
-- $2 limit. Nearly all of their jobs last, so the others are looked for second.
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM (
  SELECT * FROM tickwise.timers
  WHERE run_id IS NULL AND due <= (SELECT tickwise.now()) + $1::float8 * interval '1 second'
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) t
CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs WHERE job_id = t.job_id AND lasting
  UNION ALL SELECT namespace, definition, labels, lane FROM tickwise.jobs WHERE job_id = t.job_id AND NOT lasting LIMIT 1) j
