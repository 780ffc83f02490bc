-- As in 0001, with the change noted. Set them free. What was asked of a run by a person is done; a recorded start counts a crash unless its holder left in order, and stays
-- on record; too many crashes end the run, and so does what its job says of an unknown outcome. Rows that somebody else has in hand, and
-- those whose holder lives, are left alone. Returns what became of each: 'cancelled', 'unknown' (failed), 'held' (failed, for a person to
-- decide), 'poison', 'revoked', 'free'; its job if a run of that waits for its end; its namespace and the key of which it had a slot.
CREATE OR REPLACE FUNCTION tickwise.runs_free(ids uuid[], crashes_max int, in_order boolean)
RETURNS TABLE (run_id uuid, verdict text, job_id uuid, namespace text, limit_key text) LANGUAGE sql AS $$
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT r.* FROM tickwise.runs r
  WHERE r.run_id = ANY(ids)
    -- Who is gone is asked once: a run that was claimed anew meanwhile is looked at again, and its holder, born since, is not known here.
    AND r.holder = ANY(ARRAY(
      SELECT h.holder FROM tickwise.runs h
      WHERE h.run_id = ANY(ids) AND h.holder <> 0
        AND (SELECT true FROM tickwise.executors e WHERE e.executor = h.holder AND e.gone IS NULL) IS NULL))
  ORDER BY r.run_id FOR UPDATE OF r SKIP LOCKED
),
v AS MATERIALIZED (
  SELECT o.*, CASE WHEN o.state = 3 AND NOT in_order THEN 1 ELSE 0 END AS crash, CASE WHEN o.state = 2 AND in_order THEN 1 ELSE 0 END AS uncounted,
         c.reason AS asked_reason, c.error AS asked_error, c.asked, c.heard,
         CASE WHEN c.kind = 'cancel' THEN 'cancelled'
              WHEN o.state = 3 AND o.on_unknown > 0 THEN CASE o.on_unknown WHEN 1 THEN 'unknown' ELSE 'held' END
              WHEN o.state = 3 AND NOT in_order AND o.crashes + 1 >= crashes_max THEN 'poison'
              WHEN c.kind = 'revoke' AND o.state = 2 THEN 'revoked'
              ELSE 'free' END AS verdict
  FROM o LEFT JOIN tickwise.cancel_requests c ON c.run_id = o.run_id AND c.holder = o.holder AND c.token = o.token
),
a AS (
  INSERT INTO tickwise.attempts (claimed, started, ended, token, executor, run_id, attempt, state, reason)
  SELECT claimed, started, (SELECT at FROM clock), token, holder, run_id, attempt, 1,
         CASE WHEN in_order THEN 'executor_left' ELSE 'lease_lost' END
  FROM v WHERE state = 3 AND verdict IN ('free', 'cancelled')
  ON CONFLICT DO NOTHING
),
d AS (
  DELETE FROM tickwise.runs r WHERE r.run_id = ANY(ARRAY(SELECT v.run_id FROM v WHERE v.verdict <> 'free'))
),
-- Lost for good: that attempt is the last one, and its own row.
lost AS (
  INSERT INTO tickwise.history (due, nominal, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                failures, crashes, trigger, namespace, reason, error, definition, origin)
  SELECT due, nominal, queued, claimed, started, (SELECT at FROM clock), holder, token, run_id, job_id, 6, state, attempt, failures,
         crashes + crash, trigger, namespace,
         CASE verdict WHEN 'poison' THEN 'poison' WHEN 'unknown' THEN 'executor_lost' ELSE 'unknown_outcome' END,
         CASE WHEN verdict = 'poison' THEN 'its executor was lost while it ran, ' || crashes + crash || ' times'
              WHEN verdict = 'unknown' THEN 'its executor was lost while it ran, and its job says that it then failed'
              ELSE 'its executor was lost while it ran: what it has done is unknown, and its job leaves it to a person' END,
         CASE WHEN own THEN spec END, origin
  FROM v WHERE verdict IN ('poison', 'unknown', 'held')
  ON CONFLICT DO NOTHING
),
follows AS (
  INSERT INTO tickwise.follows (since, run_id, succeeded)
  SELECT (SELECT at FROM clock), run_id, false FROM v WHERE verdict IN ('poison', 'unknown')
  ON CONFLICT DO NOTHING
),
-- Ended because a person said so: nobody holds it in the end.
asked AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                                trigger, namespace, reason, error, definition, origin, cancel_asked, cancel_heard, cancel_error)
  SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, CASE verdict WHEN 'cancelled' THEN 7 ELSE 8 END, 1,
         attempt - uncounted, failures, crashes + crash, trigger, namespace, coalesce(asked_reason, 'cancelled'), asked_error,
         CASE WHEN own THEN spec END, origin, CASE verdict WHEN 'cancelled' THEN asked END,
         CASE verdict WHEN 'cancelled' THEN heard END, CASE verdict WHEN 'cancelled' THEN asked_error END
  FROM v WHERE verdict = 'cancelled' OR verdict = 'revoked' AND asked_reason IS NOT NULL
  ON CONFLICT DO NOTHING
),
u AS (
  UPDATE tickwise.runs r
  SET holder = 0, token = 0, state = 1, guarded = r.guarded OR NOT in_order, claimed = '-infinity', started = '-infinity',
      crashes = r.crashes + CASE WHEN r.state = 3 AND NOT in_order THEN 1 ELSE 0 END,
      attempt = r.attempt - CASE WHEN r.state = 2 AND in_order THEN 1 ELSE 0 END, on_unknown = 0, limit_key = NULL, place = NULL,
      ready = greatest((SELECT at FROM clock), r.due, r.slot)
  WHERE r.run_id = ANY(ARRAY(SELECT v.run_id FROM v WHERE v.verdict = 'free'))
  RETURNING r.run_id, r.job_id, r.namespace, r.attempt
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(1, g.namespace, g.runs, g.jobs, g.attempts)
  FROM (SELECT u.namespace, array_agg(u.run_id) AS runs, array_agg(u.job_id) AS jobs, array_agg(u.attempt) AS attempts
        FROM u WHERE CASE WHEN EXISTS (SELECT FROM u) THEN (SELECT tickwise.feed_watched()) END GROUP BY u.namespace) g
),
requests AS (
  DELETE FROM tickwise.cancel_requests c WHERE c.run_id = ANY(ARRAY(SELECT v.run_id FROM v))
)
SELECT v.run_id, v.verdict, CASE WHEN v.watched AND v.verdict <> 'free' THEN v.job_id END, v.namespace,
       CASE v.state WHEN 3 THEN v.limit_key END
FROM v WHERE (SELECT count(*) FROM noted) >= 0
$$;
