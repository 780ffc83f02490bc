-- An event for notification rules keeps both ends of a long error: how it ended, and the cause. `domain.excerpts.both_ends` is the twin.
CREATE FUNCTION tickwise.error_ends(error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN length(error) <= 1000 THEN error ELSE left(error, 100) || E'\n\u2026\n' || right(error, 897) END;

-- As in 0024, with both ends of the error.
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
  SELECT e.ended, e.token, e.run_id, e.job_id, e.run_id, e.state, e.attempt, e.namespace, e.reason, tickwise.error_ends(e.error)
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

-- As in 0024, with both ends of the error.
CREATE OR REPLACE FUNCTION tickwise.attempts_failed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM tickwise.failures_note(array_agg(c.run_id), array_agg(c.token), false) FROM came c
  WHERE c.state = 4 OR c.state = 1 AND c.reason = 'lease_lost' HAVING count(*) > 0;
  IF EXISTS (SELECT FROM tickwise.notices_watched w WHERE w.retries > 0) THEN
    INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, state, attempt, namespace, reason, error)
    SELECT c.ended, c.token, c.run_id, r.job_id, c.run_id, c.state, c.attempt, r.namespace, c.reason, tickwise.error_ends(c.error)
    FROM came c
    CROSS JOIN LATERAL (SELECT r.job_id, r.namespace FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) r
    WHERE c.state = 4 AND EXISTS (SELECT FROM tickwise.notices_watched w WHERE w.namespace = r.namespace AND w.retries > 0)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;
