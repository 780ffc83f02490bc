-- Free what the gone held. A recorded start counts a crash and keeps the lost attempt; too many crashes end the run.
-- $1 executors, $2 most crashes. Reads all of `runs`, which is small; nobody dies often.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, token, holder, state, attempt, claimed, started, state = 3 AND crashes + 1 >= $2::int AS poison
  FROM tickwise.runs WHERE holder = ANY($1::bigint[]) ORDER BY run_id FOR UPDATE
),
a AS (
  INSERT INTO tickwise.attempts (claimed, started, ended, token, executor, run_id, attempt, state, reason)
  SELECT claimed, started, (SELECT at FROM clock), token, holder, run_id, attempt, 1, 'lease_lost'
  FROM o WHERE state = 3 AND NOT poison
  ON CONFLICT DO NOTHING
),
d AS (
  DELETE FROM tickwise.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE poison))
  RETURNING due, nominal, queued, claimed, started, holder, token, run_id, job_id, state, attempt, failures, crashes, trigger,
            namespace, CASE WHEN own THEN spec END AS definition, origin
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                failures, crashes, trigger, namespace, reason, error, definition, origin)
  SELECT due, nominal, queued, claimed, started, (SELECT at FROM clock), holder, token, run_id, job_id, 6, state, attempt, failures,
         crashes + 1, trigger, namespace, 'poison',
         'its executor was lost while it ran, ' || crashes + 1 || ' times', definition, origin
  FROM d
  ON CONFLICT DO NOTHING
),
u AS (
  UPDATE tickwise.runs r
  SET holder = 0, token = 0, state = 1, guarded = true, claimed = '-infinity', started = '-infinity',
      crashes = r.crashes + CASE r.state WHEN 3 THEN 1 ELSE 0 END, ready = greatest((SELECT at FROM clock), r.due)
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE NOT poison))
)
SELECT run_id, poison, state = 3 AS begun FROM o
