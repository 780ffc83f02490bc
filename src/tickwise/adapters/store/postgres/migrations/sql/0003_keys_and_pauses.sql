-- Three small steps of one migration: keys that can be taken back, jobs that are paused, and signatures of results.

-- Keys that can be taken back: how each came to be, until when it is good, when it was used last.

-- A handful of rows: all that is done to the table here takes milliseconds.
SELECT tickwise.lock_briefly(ARRAY['keys']);

ALTER TABLE tickwise.keys
  ADD COLUMN expires    timestamptz,          -- NULL: it does not expire
  ADD COLUMN used       timestamptz,          -- to the minute or so; NULL: never
  ADD COLUMN revoked    timestamptz,          -- NULL: it is good. See `key_revoke.sql` for what becomes of its digest
  ADD COLUMN prefix     text,                 -- the beginning of the secret, which may be shown; NULL: nothing of it may be
  ADD COLUMN created_by text,                 -- the principal's name; NULL: nobody asked for it
  -- From the label, which programs of the release before write too.
  ADD COLUMN origin     text GENERATED ALWAYS AS (CASE label
    WHEN 'TICKWISE_BOOTSTRAP_KEY' THEN 'setting'
    WHEN 'made at the first start' THEN 'first'
    WHEN 'the command line of this machine' THEN 'local'
    ELSE 'made' END) STORED;

-- What a pause without an end holds back has no next time. The view is that of 0001 but for the condition on `ready`.
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
       j.standing, j.lasting, j.recurring
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

-- The public key of each executor, by which recorders verify the results that it publishes. NULL: a program of before joined, which
-- signs nothing. Empty: it publishes nothing.

SELECT tickwise.lock_briefly(ARRAY['executors']);

ALTER TABLE tickwise.executors ADD COLUMN results_key bytea;
