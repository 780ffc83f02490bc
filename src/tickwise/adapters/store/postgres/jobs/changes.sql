-- name: job_place
-- Store that a job recurs or not, and that it lasts: it leaves the jobs that go by dropping a partition, and does not come back.
-- $1 job, $2 it recurs, $3 it lasts.
UPDATE tickwise.jobs SET recurring = $2, lasting = lasting OR $3::boolean
WHERE job_id = $1 AND (recurring <> $2 OR NOT lasting AND $3)

-- name: job_write
-- Store a job's new definition. $1 job, $2 … its columns, $11 whether its task or payload is another one, $12 the secrets that it names.
UPDATE tickwise.jobs
SET version = version + 1, updated = tickwise.now(), name = $2, key = $3, schedule_type = $4, task_kind = $5,
    definition = $6, lane = $7, labels = $8::jsonb, owner = $9, calendars = $10::text[], secrets = $12::text[],
    task_changed = CASE WHEN $11::boolean THEN tickwise.now() ELSE coalesce(task_changed, updated) END
WHERE job_id = $1

-- name: timer_touch
-- Keep out fires of this job until this transaction ends. $1 job. Written and not only locked, so that a statement which
-- began before this transaction ended, and so still sees the old job, finds its timer changed and leaves it for the next round.
UPDATE tickwise.timers SET due = due WHERE job_id = $1

-- name: job_runs_lock
-- A job's active runs stay as they are until this transaction ends.
SELECT FROM tickwise.runs WHERE job_id = $1 ORDER BY run_id FOR UPDATE

-- name: job_respecify
-- A job's active runs wait in its lane and are run by its definition, unless they have their own. $1 job, $2 lane, $3 definition.
-- One that waits for a slot of a limit asks again: the definition may say otherwise by now.
UPDATE tickwise.runs
SET lane = $2, spec = CASE WHEN own THEN spec WHEN octet_length($3::text) <= 8192 THEN $3 END,
    blocked = blocked AND limit_key IS NULL,
    ready = CASE WHEN blocked AND limit_key IS NOT NULL THEN greatest((SELECT tickwise.now()), due) ELSE ready END
WHERE job_id = $1

-- name: job_ask_back
-- Request back the unstarted runs of a job that is stopped or whose queue is on hold, if nothing else is requested of them, and withdraw that for a queue that
-- is not: their plan or queue is another one, and `holds_tell` is done. $1 job. The caller has locked these runs.
WITH o AS MATERIALIZED (
  SELECT run_id, token, holder, lane IN (SELECT lane FROM tickwise.lanes_held)
           OR (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(job_id) AS on_hold
  FROM tickwise.runs WHERE job_id = $1 AND state = {RunState.DISPATCHED}
),
withdrawn AS (
  DELETE FROM tickwise.cancel_requests
  WHERE kind = 'return' AND error IS NULL AND run_id = ANY(ARRAY(SELECT run_id FROM o WHERE NOT on_hold))
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT tickwise.now(), token, holder, run_id, 'return' FROM o WHERE on_hold ORDER BY run_id
ON CONFLICT (run_id) DO UPDATE
SET kind = 'return', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token

-- name: job_rate_changed
-- A job's rate is another one: its free runs have no slot under the old one any more, and are claimable as they are due. $1 job. The caller
-- has locked these runs.
UPDATE tickwise.runs
SET slot = NULL, rate_key = NULL, ready = CASE WHEN blocked THEN ready ELSE greatest((SELECT tickwise.now()), due) END
WHERE job_id = $1 AND holder = 0 AND slot IS NOT NULL

-- name: job_stand
-- Set a job's standing. $1 job, $2 standing, $3 reason, $4 until, $5 by whom. A pause of a paused job, if that pause is not over by itself,
-- is the same pause; one with the same values changes nothing. The key of a cancelled job is free for another.
UPDATE tickwise.jobs
SET standing = $2::smallint, key = CASE WHEN $2::smallint <> {JobStanding.CANCELLED} THEN key END, version = version + 1, updated = tickwise.now(),
    task_changed = coalesce(task_changed, updated), pause_reason = $3, pause_until = to_timestamp($4::float8), paused_by = $5,
    paused = CASE WHEN $2::smallint = {JobStanding.PAUSED} AND standing = {JobStanding.PAUSED} AND (pause_until IS NULL OR pause_until > tickwise.now()) THEN paused
                  WHEN $2::smallint = {JobStanding.PAUSED} THEN tickwise.now() END
WHERE job_id = $1
  AND (standing, pause_reason, pause_until, paused_by) IS DISTINCT FROM ($2::smallint, $3, to_timestamp($4::float8), $5)

-- name: timer_hold
-- Hold a job's timer at its current position. $1 job, $2 until (NULL: until the job is resumed).
UPDATE tickwise.timers
SET since = CASE WHEN hold IS NULL THEN due ELSE since END, hold = 'paused', run_id = NULL,
    due = coalesce(to_timestamp($2::float8), 'infinity')
WHERE job_id = $1

-- name: plan_continue
-- Resume a job: its postponed runs become claimable at their time, or now. $1 job, $2 a run that is due more seconds than this after
-- its nominal time was postponed.
UPDATE tickwise.runs
SET ready = greatest((SELECT tickwise.now()), due)
WHERE job_id = $1 AND trigger = {Trigger.SCHEDULE} AND state = {RunState.QUEUED} AND NOT blocked AND slot IS NULL AND ready > greatest((SELECT tickwise.now()), due)
  AND date_part('epoch', due - nominal) > $2::float8

-- name: timer_drop
-- Delete a job's timer; returns how many runs its schedule has made.
DELETE FROM tickwise.timers WHERE job_id = $1 RETURNING coalesce(fired, 0)

-- name: timer_lock
-- The position of a job's schedule, locked until this transaction ends. $1 job.
SELECT date_part('epoch', due) AS due, date_part('epoch', since) AS since, hold, coalesce(fired, 0) AS fired,
       date_part('epoch', minute) AS minute, coalesce(in_minute, 0) AS in_minute, run_id
FROM tickwise.timers WHERE job_id = $1 FOR UPDATE

-- name: job_touch
-- Note that a person changed only the next occurrence of a job. $1 job.
UPDATE tickwise.jobs SET version = version + 1, updated = tickwise.now(), task_changed = coalesce(task_changed, updated) WHERE job_id = $1

-- name: timer_put
-- Store the position of a job's schedule. $1 job, $2 due, $3 the name of that fire for a one-time job that needs no decision (an active or
-- ended one is not named again), $4 … the timer's other columns.
INSERT INTO tickwise.timers (job_id, due, run_id, since, hold, fired, minute, in_minute, zone_data)
SELECT $1, to_timestamp($2::float8), $3::uuid, to_timestamp($4::float8), $5::text, nullif($6::bigint, 0), to_timestamp($7::float8),
       nullif($8::int, 0), $9::text
WHERE $3::uuid IS NULL OR NOT EXISTS (SELECT FROM tickwise.runs_shown r WHERE r.run_id = $3)
ON CONFLICT (job_id) DO UPDATE
SET due = excluded.due, run_id = excluded.run_id, since = excluded.since, hold = excluded.hold, fired = excluded.fired,
    minute = excluded.minute, in_minute = excluded.in_minute, zone_data = excluded.zone_data

-- name: job_lock
-- One job as it is stored, locked against other changes until this transaction ends. $1 namespace, $2 job.
SELECT job_id, name, key, schedule_type, task_kind, definition, lane, coalesce(labels, '{}')::text AS labels,
       coalesce(owner, created_by) AS owner, version, standing, recurring, lasting, coalesce(calendars, '{}') AS calendars,
       pause_reason, paused_by, date_part('epoch', pause_until) AS pause_until,
       standing = {JobStanding.PAUSED} AND (pause_until IS NULL OR pause_until > tickwise.now()) AS paused, date_part('epoch', tickwise.now()) AS now
FROM tickwise.jobs WHERE job_id = $2 AND namespace = $1 FOR UPDATE

-- name: job_counted
-- Read the properties of a job that its quotas count. $1 job. Returns whether it lasts, whether it has a timer, whether it has an unfinished
-- run, and the bytes of its definition.
SELECT lasting, EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id) AS has_timer,
       EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id) AS has_runs, octet_length(definition) AS bytes
FROM tickwise.jobs j WHERE job_id = $1
