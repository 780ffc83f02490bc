-- What people see of runs and jobs, with the column names of the port's rows.

-- Living and ended runs. A column that has not come is NULL.
CREATE VIEW tickwise.runs_shown AS
SELECT run_id, job_id, namespace, state, trigger, date_part('epoch', due) AS due_at, date_part('epoch', queued) AS queued_at,
       date_part('epoch', nullif(claimed, '-infinity')) AS dispatched_at,
       date_part('epoch', nullif(started, '-infinity')) AS started_at, NULL::float8 AS ended_at,
       CASE WHEN NOT blocked THEN date_part('epoch', greatest(ready, due)) END AS ready_at, attempt, failures, crashes,
       nullif(holder, 0) AS executor, NULL::text AS reason, NULL::text AS error, NULL::text AS result, origin,
       CASE WHEN own THEN spec END AS definition, date_part('epoch', coalesce(nominal, due)) AS nominal_at, blocked,
       CASE WHEN state = 3 OR blocked THEN limit_key END AS limit_key, slot IS NOT NULL AS paced, NULL::float8 AS cancel_asked, NULL::float8 AS cancel_heard,
       NULL::text AS cancel_error, 1 AS occurrences, NULL::float8 AS until, due, token,
       due - nominal > interval '10 minutes' AS late  -- as `history_late` has it
FROM tickwise.runs
UNION ALL
SELECT run_id, job_id, namespace, state, trigger, date_part('epoch', due), date_part('epoch', queued),
       date_part('epoch', claimed), date_part('epoch', started), date_part('epoch', ended), NULL, attempt, failures, crashes,
       nullif(executor, 0), reason, error, result, origin, definition, date_part('epoch', coalesce(nominal, due)), false,
       NULL, false, date_part('epoch', cancel_asked), date_part('epoch', cancel_heard), cancel_error, coalesce(occurrences, 1), date_part('epoch', until), due, token,
       due - nominal > interval '10 minutes'
FROM tickwise.history;

-- Jobs with what follows from their timers and runs. Only a pause (until it is over) and a cancellation are stored.
CREATE VIEW tickwise.jobs_shown AS
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
         min(due) FILTER (WHERE state = 1 OR state = 2 AND due > (SELECT tickwise.now())) AS due  -- held and past: it may have begun
  FROM tickwise.runs r WHERE r.job_id = j.job_id OFFSET 0) r
CROSS JOIN LATERAL (SELECT CASE
    WHEN j.standing = 2 THEN 'CANCELLED'
    WHEN j.standing = 1 AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now())) THEN 'PAUSED'
    WHEN t.due < 'infinity' OR r.some OR j.schedule_type = 'ON_DEMAND' THEN 'SCHEDULED'
    WHEN NOT j.recurring AND (SELECT h.state = 6 FROM tickwise.history h WHERE h.job_id = j.job_id
                              ORDER BY h.run_id DESC LIMIT 1) THEN 'FAILED'
    ELSE 'COMPLETED' END AS status OFFSET 0) s;

-- Dead letters: what failed for good, and what was done about it.
CREATE VIEW tickwise.letters_shown AS
SELECT r.*, j.name AS job_name, j.task_kind, l.status AS settled_as, date_part('epoch', l.settled) AS settled_at, l.settled_by, l.note,
       l.redriven_as, l.ruling
FROM tickwise.runs_shown r
-- Looked up for each: a search begins with what failed, and reads it in order.
CROSS JOIN LATERAL (SELECT name, task_kind FROM tickwise.jobs j WHERE j.job_id = r.job_id OFFSET 0) j
LEFT JOIN LATERAL (SELECT * FROM tickwise.letters l WHERE l.run_id = r.run_id OFFSET 0) l ON true
WHERE r.state = 6;

-- What stands still now.
CREATE VIEW tickwise.queues_held AS
SELECT namespace, queue FROM tickwise.holds WHERE begun <= (SELECT tickwise.now()) AND until > (SELECT tickwise.now());
CREATE VIEW tickwise.lanes_held AS
SELECT l.lane FROM tickwise.queues_held h JOIN tickwise.lanes l ON l.namespace = h.namespace AND l.queue = h.queue;
