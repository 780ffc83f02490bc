-- The noting of changes in less of the writers' time: one number for the attempts of a batch instead of a list, and ends are noted by the
-- statement that counts them, which has grouped them already.

-- As the one of before, of runs that have the number of their attempt in common. The list stays for programs of the release before.
CREATE FUNCTION tickwise.feed_note(state int, namespace text, attempt smallint, runs uuid[], jobs uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tickwise.feed (at, state, namespace, attempt, runs, jobs, attempts)
  VALUES (tickwise.now(), state, namespace, attempt, runs, jobs, array_fill(attempt, ARRAY[cardinality(runs)]));
END
$$;

-- As in 0018; and the runs that ended, while somebody watches.
CREATE OR REPLACE FUNCTION tickwise.tally() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  failed boolean;
BEGIN
  IF tickwise.feed_watched() THEN
    WITH g AS MATERIALIZED (
      SELECT c.state, c.namespace, c.attempt, count(*) AS ended, array_agg(c.run_id) AS runs, array_agg(c.job_id) AS jobs
      FROM came c GROUP BY c.state, c.namespace, c.attempt
    ),
    noted AS MATERIALIZED (SELECT tickwise.feed_note(g.state, g.namespace, g.attempt, g.runs, g.jobs) FROM g),
    counted AS (
      INSERT INTO tickwise.tallies_new (hour, runs, state, namespace)
      SELECT date_bin('1 hour', tickwise.now(), to_timestamp(0)), sum(g.ended), g.state, g.namespace
      FROM g WHERE (SELECT count(*) FROM noted) >= 0 GROUP BY g.state, g.namespace
      RETURNING state
    )
    SELECT bool_or(state = 6) INTO failed FROM counted;
  ELSE
    WITH counted AS (
      INSERT INTO tickwise.tallies_new (hour, runs, state, namespace)
      SELECT date_bin('1 hour', tickwise.now(), to_timestamp(0)), count(*), state, namespace FROM came GROUP BY state, namespace
      RETURNING state
    )
    SELECT bool_or(state = 6) INTO failed FROM counted;
  END IF;
  IF failed THEN
    PERFORM tickwise.failures_note(array_agg(run_id), array_agg(token), true) FROM came WHERE state = 6;
  END IF;
  RETURN NULL;
END
$$;

-- As in 0036, without the changes that are noted above.
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
           OR EXISTS (SELECT FROM tickwise.notices_events n WHERE n.job_id = e.job_id OFFSET 0))
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

-- At the end, for writers wait from here on: a statement that ends runs calls both functions of before, or both of these.
SELECT tickwise.lock_briefly(ARRAY['history', 'feed']);
ALTER TABLE tickwise.feed ADD COLUMN attempt smallint;  -- of all of them; NULL: see `attempts`
