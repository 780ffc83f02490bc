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
