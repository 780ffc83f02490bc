-- Free at once what an executor that leaves in order still holds: no crash is counted, a begun attempt stays on record.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, token, holder, state, attempt, claimed, started FROM tickwise.runs WHERE holder = $1::bigint ORDER BY run_id FOR UPDATE
),
a AS (
  INSERT INTO tickwise.attempts (claimed, started, ended, token, executor, run_id, attempt, state, reason)
  SELECT claimed, started, (SELECT at FROM clock), token, holder, run_id, attempt, 1, 'executor_left'
  FROM o WHERE state = 3
  ON CONFLICT DO NOTHING
),
u AS (
  UPDATE tickwise.runs r
  SET holder = 0, token = 0, state = 1, claimed = '-infinity', started = '-infinity',
      attempt = r.attempt - CASE r.state WHEN 2 THEN 1 ELSE 0 END, ready = greatest((SELECT at FROM clock), r.due)
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM o))
)
SELECT run_id, state = 3 AS begun FROM o
