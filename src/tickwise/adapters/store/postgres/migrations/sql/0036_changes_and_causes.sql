-- The time of the last change of the task or the payload of a job. NULL: it is that of `updated`, so a job costs nothing more when it is made,
-- and one of before says what it said. A statement that writes `updated` for another reason keeps the time here.
SELECT tickwise.lock_briefly(ARRAY['jobs']);
ALTER TABLE tickwise.jobs ADD COLUMN task_changed timestamptz;

-- As in 0003, with that time.
CREATE OR REPLACE VIEW tickwise.jobs_shown AS
SELECT j.job_id, j.namespace, j.name, j.key, j.schedule_type, j.task_kind, j.lane, j.definition,
       coalesce(j.labels, '{}') AS labels, coalesce(j.owner, j.created_by) AS owner, j.created_by,
       date_part('epoch', j.created) AS created_at, date_part('epoch', j.updated) AS updated_at, j.version, s.status,
       CASE WHEN s.status = 'PAUSED' THEN date_part('epoch', j.paused) END AS paused_at,
       CASE WHEN s.status = 'PAUSED' THEN j.pause_reason END AS pause_reason,
       CASE WHEN s.status = 'PAUSED' THEN date_part('epoch', j.pause_until) END AS pause_until,
       CASE WHEN s.status = 'PAUSED' THEN j.paused_by END AS paused_by,
       date_part('epoch', least(nullif(t.due, 'infinity'), r.due)) AS next_run_at,  -- least() passes over NULL
       date_part('epoch', t.due) AS timer_due, date_part('epoch', t.since) AS timer_since, t.hold AS timer_hold,
       coalesce(t.fired, 0) AS timer_fired, date_part('epoch', t.minute) AS timer_minute,
       coalesce(t.in_minute, 0) AS timer_in_minute, j.labels AS labels_stored,
       j.standing, j.lasting, j.recurring,
       date_part('epoch', coalesce(j.task_changed, j.updated)) AS task_changed_at
FROM tickwise.jobs j
LEFT JOIN LATERAL (
  SELECT due, since, hold, fired, minute, in_minute FROM tickwise.timers t WHERE t.job_id = j.job_id OFFSET 0) t ON true
CROSS JOIN LATERAL (
  SELECT count(*) > 0 AS some,
         min(due) FILTER (WHERE state = 1 AND (blocked OR ready < 'infinity') OR state = 2 AND due > (SELECT tickwise.now())) AS due  -- held and past: it may have begun
  FROM tickwise.runs r WHERE r.job_id = j.job_id OFFSET 0) r
CROSS JOIN LATERAL (SELECT CASE
    WHEN j.standing = 2 THEN 'CANCELLED'
    WHEN j.standing = 1 AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now())) THEN 'PAUSED'
    WHEN t.due < 'infinity' OR r.some OR j.schedule_type = 'ON_DEMAND' THEN 'SCHEDULED'
    WHEN NOT j.recurring AND (SELECT h.state = 6 FROM tickwise.history h WHERE h.job_id = j.job_id
                              ORDER BY h.run_id DESC LIMIT 1) THEN 'FAILED'
    ELSE 'COMPLETED' END AS status OFFSET 0) s;

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
