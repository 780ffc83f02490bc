-- Recurring jobs due within the horizon, the earliest first, held by this transaction. $1 horizon in seconds, $2 limit.
SELECT t.job_id, j.namespace, date_part('epoch', t.due) AS due, j.definition
FROM (
  SELECT job_id, due FROM tickwise.timers
  WHERE run_id IS NULL AND due <= (SELECT tickwise.now()) + $1::float8 * interval '1 second'
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) t
CROSS JOIN LATERAL (
  SELECT namespace, definition FROM tickwise.jobs_lasting j WHERE j.job_id = t.job_id OFFSET 0) j
