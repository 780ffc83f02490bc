-- Timers that need a decision and are due within the horizon, the earliest first, held by this transaction. $1 horizon in seconds,
-- $2 limit.
SELECT t.job_id, j.namespace, date_part('epoch', t.due) AS due, date_part('epoch', t.since) AS since, t.hold,
       coalesce(t.fired, 0) AS fired, date_part('epoch', t.minute) AS minute, coalesce(t.in_minute, 0) AS in_minute, t.run_id,
       j.definition, j.labels::text AS labels
FROM (
  SELECT * FROM tickwise.timers
  WHERE run_id IS NULL AND due <= (SELECT tickwise.now()) + $1::float8 * interval '1 second'
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) t
CROSS JOIN LATERAL (
  SELECT namespace, definition, labels FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
