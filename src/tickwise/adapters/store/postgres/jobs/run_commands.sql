-- name: job_share
-- The standing of a job, locked against a cancel until this transaction ends. $1 namespace, $2 job.
SELECT standing FROM tickwise.jobs WHERE job_id = $2 AND namespace = $1 FOR SHARE

-- name: run_job_share
-- Lock the job of a run against pauses until this transaction ends. $1 run, $2 namespace.
SELECT FROM tickwise.jobs WHERE job_id = (SELECT job_id FROM tickwise.runs WHERE run_id = $1 AND namespace = $2) FOR SHARE

-- name: run_postpone
-- Move an unstarted free run that waits for no other one to another due time; the runs before it are looked at anew then, and it asks for
-- another slot under its rate. One of the schedule of a paused job waits for the end of the pause. $1 run, $2 namespace, $3 due. The caller
-- has locked its job. Returns the job; no row if there is no such run.
UPDATE tickwise.runs r
SET due = to_timestamp($3::float8), nominal = nullif(coalesce(nominal, due), to_timestamp($3)),
    ready = greatest((SELECT tickwise.now()), to_timestamp($3), (
      SELECT coalesce(j.pause_until, 'infinity') FROM tickwise.jobs j
      WHERE j.job_id = r.job_id AND r.trigger = {Trigger.SCHEDULE} AND j.standing = {JobStanding.PAUSED}
        AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now())))),
    overlap = abs(overlap),
    slot = NULL, rate_key = NULL, limit_key = NULL, place = NULL
WHERE run_id = $1 AND namespace = $2 AND state = {RunState.QUEUED} AND NOT blocked
  AND NOT EXISTS (SELECT FROM tickwise.attempts a WHERE a.run_id = r.run_id)
RETURNING job_id

-- name: run_cancel
-- End one active run: at once if no executor holds it, else by request to its holder. Of several requests to one attempt, the rule of
-- `domain/rules/requests.py` chooses, here and in all statements that write `cancel_requests`. $1 run, $2 namespace, $3 the reason. Returns its
-- state afterwards, and whether this changes something; no row if it is not active. If it ended: its job if a run of it waits for another one, its namespace, and the key of
-- which it was to have a slot.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (SELECT run_id, state, holder, token FROM tickwise.runs WHERE run_id = $1 AND namespace = $2 FOR UPDATE),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', $3::text FROM o WHERE holder <> 0
  ON CONFLICT (run_id) DO UPDATE SET kind = 'cancel', reason = NULL, token = excluded.token, holder = excluded.holder, error = excluded.error,
    asked = excluded.asked, heard = NULL
  WHERE c.kind <> 'cancel' OR c.token <> excluded.token
  RETURNING run_id
),
d AS (
  DELETE FROM tickwise.runs WHERE run_id = (SELECT run_id FROM o WHERE holder = 0)
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                                trigger, namespace, reason, error, definition, origin)
  SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, {RunState.CANCELLED}, state, attempt, failures, crashes, trigger, namespace,
         'cancelled', $3, definition, origin
  FROM d
)
SELECT CASE WHEN holder = 0 THEN {RunState.CANCELLED} ELSE o.state END AS state, holder = 0 OR EXISTS (SELECT FROM held) AS changed,
       CASE WHEN (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) THEN d.job_id END AS job_id, d.namespace, d.limit_key
FROM o LEFT JOIN d ON true

-- name: runs_waiting
-- Free runs that became ready more than $2 and at most $1 seconds ago, the most urgent lanes first; queues on hold and stopped jobs left out. At most $3.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at)
SELECT r.run_id, date_part('epoch', r.ready), l.lane
FROM tickwise.lanes l CROSS JOIN LATERAL (
  SELECT run_id, ready FROM tickwise.runs
  WHERE lane = l.lane AND holder = 0 AND ready >= (SELECT at FROM clock) - $1::float8 * interval '1 second'
    AND ready < (SELECT at FROM clock) - $2::float8 * interval '1 second'
    AND CASE WHEN (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) THEN NOT tickwise.is_stopped(job_id) ELSE true END
  ORDER BY ready LIMIT $3) r
WHERE l.lane NOT IN (SELECT lane FROM tickwise.lanes_held)
ORDER BY l.priority DESC, r.ready LIMIT $3

-- name: job_runs_cancel
-- End all active runs of a job: free ones end here, held ones are requested to stop. $1 job, $2 the reason, $3 only those of this origin
-- (NULL: all). Returns how many there were, for how many this changes something, and the keys of the slots reserved for those that ended (namespaces,
-- keys; NULL: none).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (SELECT run_id, holder, token FROM tickwise.runs WHERE job_id = $1 AND holder <> 0 AND ($3::uuid IS NULL OR origin = $3)),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', $2::text FROM o
  ON CONFLICT (run_id) DO UPDATE SET kind = 'cancel', reason = NULL, token = excluded.token, holder = excluded.holder, error = excluded.error,
    asked = excluded.asked, heard = NULL
  WHERE c.kind <> 'cancel' OR c.token <> excluded.token
  RETURNING run_id
),
d AS (
  DELETE FROM tickwise.runs WHERE job_id = $1 AND holder = 0 AND ($3::uuid IS NULL OR origin = $3)
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, namespace, reason, error, definition, origin)
SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, {RunState.CANCELLED}, state, attempt, failures, crashes, trigger, namespace,
       'cancelled', $2, definition, origin
  FROM d
  ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM o) + (SELECT count(*) FROM d), (SELECT count(*) FROM held) + (SELECT count(*) FROM d), array_agg(namespace), array_agg(limit_key)
FROM d WHERE limit_key IS NOT NULL

-- name: run_state
-- The state of one run, active or ended. $1 run, $2 namespace.
SELECT state FROM tickwise.runs_shown WHERE run_id = $1 AND namespace = $2
