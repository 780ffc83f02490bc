-- Events for notification rules are noted with the end that they tell of, where a rule may ask for them.
-- As in 0017; and what rules may ask for, in namespaces that have some. Without any, a statement reads an empty table once. Failures, and
-- skips for a reason that nobody chose, always; a success only of a job with an alert that a success closes, or with an event that may open
-- one: until a scheduler has judged that event it is there, and from then on the alert is.
CREATE OR REPLACE FUNCTION tickwise.feed_ended() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  watched text[];
  passes CONSTANT text[] := ARRAY['failure', 'first_failure', 'did_not_run', 'retries', 'late', 'long', 'fuse', 'anomaly'];
BEGIN
  IF tickwise.feed_watched() THEN
    INSERT INTO tickwise.feed (at, state, namespace, runs, jobs, attempts)
    SELECT tickwise.now(), e.state, e.namespace, array_agg(e.run_id), array_agg(e.job_id), array_agg(e.attempt)
    FROM ended e GROUP BY e.state, e.namespace;
  END IF;
  IF NOT EXISTS (SELECT FROM tickwise.notices_watched) THEN
    RETURN NULL;
  END IF;
  watched := ARRAY(SELECT w.namespace FROM tickwise.notices_watched w WHERE w.namespace IN (SELECT e.namespace FROM ended e));
  IF watched = '{}' THEN
    RETURN NULL;
  END IF;
  INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, state, attempt, namespace, reason, error)
  SELECT e.ended, e.token, e.run_id, e.job_id, e.run_id, e.state, e.attempt, e.namespace, e.reason, left(e.error, 1000)
  FROM ended e
  WHERE e.namespace = ANY(watched) AND (e.state = 6 OR e.state = 8 AND e.reason IN ('misfire', 'quota', 'expired', 'fuse'))
  ON CONFLICT DO NOTHING;
  IF EXISTS (SELECT FROM tickwise.alerts a WHERE a.namespace = ANY(watched) AND a.state <> 'closed' AND a.event = ANY(passes))
     OR EXISTS (SELECT FROM tickwise.notices_events) THEN
    INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, state, attempt, namespace)
    SELECT e.ended, e.token, e.run_id, e.job_id, e.run_id, e.state, e.attempt, e.namespace
    FROM ended e
    WHERE e.state = 5 AND e.namespace = ANY(watched)
      AND (EXISTS (SELECT FROM tickwise.alerts a WHERE a.subject = e.job_id::text AND a.state <> 'closed' AND a.event = ANY(passes) OFFSET 0)
           OR EXISTS (SELECT FROM tickwise.notices_events n WHERE n.job_id = e.job_id OFFSET 0))
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

-- As in 0018; and attempts that are tried again, where a rule is about retries. The row of an attempt does not say whose it is: its run is
-- looked up, and one that a request ended in the same statement is not there any more.
CREATE OR REPLACE FUNCTION tickwise.attempts_failed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM tickwise.failures_note(array_agg(c.run_id), array_agg(c.token), false) FROM came c
  WHERE c.state = 4 OR c.state = 1 AND c.reason = 'lease_lost' HAVING count(*) > 0;
  IF EXISTS (SELECT FROM tickwise.notices_watched w WHERE w.retries > 0) THEN
    INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, state, attempt, namespace, reason, error)
    SELECT c.ended, c.token, c.run_id, r.job_id, c.run_id, c.state, c.attempt, r.namespace, c.reason, left(c.error, 1000)
    FROM came c
    CROSS JOIN LATERAL (SELECT r.job_id, r.namespace FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) r
    WHERE c.state = 4 AND EXISTS (SELECT FROM tickwise.notices_watched w WHERE w.namespace = r.namespace AND w.retries > 0)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

-- Alerts as they are told.
CREATE VIEW tickwise.alerts_shown AS
SELECT alert_id, namespace, rule_id, event, subject, subject_name, severity, state, events, version,
       date_part('epoch', first_at) AS first_at, date_part('epoch', last_at) AS last_at, sentence, run_id, acknowledged_by,
       date_part('epoch', acknowledged_at) AS acknowledged_at, date_part('epoch', snoozed_until) AS snoozed_until, note,
       date_part('epoch', closed_at) AS closed_at, date_part('epoch', told_at) AS told_at, date_part('epoch', escalated_at) AS escalated_at,
       date_part('epoch', next_at) AS next_at, last_at AS seen_at, next_at AS due_at
FROM tickwise.alerts;
