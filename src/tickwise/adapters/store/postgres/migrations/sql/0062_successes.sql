-- Rules about successes: of the jobs that they name, and of no others. A namespace without such a rule pays for one look at an index of few
-- rows with each statement that ends runs; one with some for a look at a narrow index with each success.

-- The jobs that enabled rules about successes name. Written by the trigger below alone, also for rules of programs of the release before.
CREATE TABLE tickwise.notices_successes (
  job_id    uuid NOT NULL,
  rule_id   uuid NOT NULL,
  namespace text NOT NULL,
  PRIMARY KEY (job_id, rule_id)
);
CREATE INDEX notices_successes_rule ON tickwise.notices_successes (rule_id);
CREATE INDEX notices_successes_namespace ON tickwise.notices_successes (namespace);

CREATE FUNCTION tickwise.rule_successes() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    DELETE FROM tickwise.notices_successes WHERE rule_id = OLD.rule_id;
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.enabled AND 'success' = ANY(NEW.events) THEN
    INSERT INTO tickwise.notices_successes (job_id, rule_id, namespace)
    SELECT DISTINCT j.job_id, NEW.rule_id, NEW.namespace FROM unnest(NEW.jobs) j(job_id);
  END IF;
  RETURN NULL;
END
$$;

-- As in 0039; and successes that a rule asks for. A success that waits to be judged opens no alert, so it is no reason to note the next one.
CREATE OR REPLACE FUNCTION tickwise.feed_ended() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  watched text[];
  passes CONSTANT text[] := ARRAY['failure', 'first_failure', 'did_not_run', 'retries', 'late', 'long', 'fuse', 'anomaly'];
BEGIN
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
           OR EXISTS (SELECT FROM tickwise.notices_events n WHERE n.job_id = e.job_id AND n.state IS DISTINCT FROM 5 OFFSET 0))
    ON CONFLICT DO NOTHING;
  END IF;
  IF EXISTS (SELECT FROM tickwise.notices_successes s WHERE s.namespace = ANY(watched)) THEN
    INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, state, attempt, namespace)
    SELECT e.ended, e.token, e.run_id, e.job_id, e.run_id, e.state, e.attempt, e.namespace
    FROM ended e
    WHERE e.state = 5 AND e.namespace = ANY(watched)
      AND EXISTS (SELECT FROM tickwise.notices_successes s WHERE s.job_id = e.job_id AND s.namespace = e.namespace OFFSET 0)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

-- At the end, for writers of rules wait from here on.
SELECT tickwise.lock_briefly(ARRAY['notification_rules']);
CREATE TRIGGER notification_rules_successes AFTER INSERT OR UPDATE OR DELETE ON tickwise.notification_rules
  FOR EACH ROW EXECUTE FUNCTION tickwise.rule_successes();
