-- name: completions
-- Runs whose end starts others, the oldest first. $1 limit.
SELECT f.succeeded, r.*
FROM (SELECT since, run_id, succeeded FROM tickwise.follows ORDER BY since, run_id LIMIT $1) f
CROSS JOIN LATERAL (
  SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt, failures,
         crashes, executor, reason, error, result, origin, definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
         cancel_error, occurrences, until
  FROM tickwise.runs_shown s WHERE s.run_id = f.run_id OFFSET 0) r
ORDER BY f.since, f.run_id

-- name: completions_done
-- Delete the rows of these ended runs; return those that were still there. Rows that another scheduler has locked are left to it: if
-- its transaction fails, the next look finds them. $1 namespace, $2 runs.
WITH l AS MATERIALIZED (
  SELECT run_id FROM tickwise.follows f
  WHERE run_id = ANY($2::uuid[]) AND (SELECT h.namespace = $1 FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS NOT FALSE
  FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwise.follows WHERE run_id = ANY(ARRAY(SELECT run_id FROM l)) RETURNING run_id

-- name: jobs_share
-- The standing of these jobs (a pause that is over by itself is none), locked against pauses and cancels until this transaction ends.
-- $1 namespace, $2 jobs. Always in one order.
SELECT job_id, CASE WHEN standing = {JobStanding.PAUSED} AND pause_until <= tickwise.now() THEN {JobStanding.PLANNED} ELSE standing END AS standing
FROM tickwise.jobs WHERE job_id = ANY($2::uuid[]) AND namespace = $1 ORDER BY job_id FOR SHARE

-- name: queue_hold
-- Hold a queue for a time, in place of an existing hold. $1 namespace, $2 queue, $3 from (NULL: now), $4 until, $5 why, $6 who asked.
INSERT INTO tickwise.holds AS h (asked, begun, until, namespace, queue, reason, asked_by)
SELECT at, coalesce(to_timestamp($3::float8), at), coalesce(to_timestamp($4::float8), 'infinity'), $1, $2, $5, $6
FROM (SELECT tickwise.now() AS at) clock
ON CONFLICT (namespace, queue) DO UPDATE
SET asked = excluded.asked, begun = excluded.begun, until = excluded.until, reason = excluded.reason, asked_by = excluded.asked_by, told = false

-- name: hold_recorded
-- Keep the time of the hold that a queue has, for explanations of runs that waited in it. $1 namespace, $2 queue, $3 the reporter of the
-- incident.
INSERT INTO tickwise.incidents (kind, began, ended, who)
SELECT 'queue_held', begun, until, $3 FROM tickwise.holds WHERE namespace = $1 AND queue = $2
ON CONFLICT DO NOTHING

-- name: hold_shortened
-- Let the record of a queue's hold end now, if it would end later. $1 namespace, $2 queue, $3 the reporter of the incident.
UPDATE tickwise.incidents i SET ended = greatest(i.began, tickwise.now()) FROM tickwise.holds h
WHERE h.namespace = $1 AND h.queue = $2 AND i.began = h.begun AND i.kind = 'queue_held' AND i.who = $3 AND i.ended > tickwise.now()

-- name: queue_unask
-- Delete the requests to give back runs of a held queue; a request for a pause of the job, which says so in `error`, stays. $1 namespace,
-- $2 queue.
DELETE FROM tickwise.cancel_requests c
WHERE kind = 'return' AND error IS NULL AND (
  SELECT true FROM tickwise.runs r JOIN tickwise.lanes l ON l.lane = r.lane
  WHERE r.run_id = c.run_id AND l.namespace = $1 AND l.queue = $2 OFFSET 0)

-- name: queue_resume
-- End the hold of a queue, and delete the requests to give back its runs (as `queue_unask`; a run that is requested at this very moment
-- goes back, and is claimed again). $1 namespace, $2 queue. Returns whether there was a hold, or one to come.
WITH unasked AS (
  DELETE FROM tickwise.cancel_requests c
  WHERE kind = 'return' AND error IS NULL AND (
    SELECT true FROM tickwise.runs r JOIN tickwise.lanes l ON l.lane = r.lane
    WHERE r.run_id = c.run_id AND l.namespace = $1 AND l.queue = $2 OFFSET 0)
)
DELETE FROM tickwise.holds WHERE namespace = $1 AND queue = $2 RETURNING until > tickwise.now()

-- name: stops_tell_again
-- The requests to give back runs of a queue were deleted: those of stops in force are made anew by the next heartbeat. $1 namespace.
UPDATE tickwise.stops SET told = false WHERE namespace = $1 AND told AND until > tickwise.now()

-- name: holds_brief
-- Let this transaction wait for locks only briefly: heartbeats and claims may wait behind it.
SELECT set_config('lock_timeout', '500ms', true)

-- name: holds_wait
-- Wait until each claim has ended that may not have seen the hold of a queue, or the stop: each holds its executor's row shared.
SELECT FROM tickwise.executors WHERE gone IS NULL ORDER BY executor FOR NO KEY UPDATE
