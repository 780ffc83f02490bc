-- name: start
-- Record that attempts began, but for those that are to be settled first: their overlap is open, they have a gate, their namespace has a
-- quota of runs at once and they were claimed by it (a run that was claimed before may be under way), or their queue is on
-- hold or their job is stopped (an ordinary start is recorded when the task is under way, so a hold does not concern it). $1 executor, $2 runs, $3 tokens, $4
-- instants, $5 their `on_unknown`, $6 whether they have a gate, $7 namespaces with a quota. Returns the attempts that were not recorded, and of each that is to be
-- settled its line: its job if its overlap is open, else itself (NULL: it is refused). A repeat is recorded. A woken run has no slot yet of
-- any key, and none under a rate any more.
WITH b AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::smallint[], $6::boolean[]) AS b(run_id, token, started, on_unknown, gated)
),
u AS (
  UPDATE tickwise.runs r SET state = {RunState.RUNNING}, started = to_timestamp(b.started), on_unknown = b.on_unknown, limit_key = NULL,
    slot = NULL, rate_key = NULL
  FROM b
  WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = {RunState.DISPATCHED} AND r.overlap <= 0
    AND NOT b.gated AND NOT (r.guarded AND r.namespace = ANY($7::text[])) AND (NOT r.guarded AND b.on_unknown = {OnUnknown.RERUN} OR r.lane NOT IN (SELECT lane FROM tickwise.lanes_held)
      AND NOT ((SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(r.job_id)))
  RETURNING r.run_id, r.job_id, r.namespace, r.attempt, r.state
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT state, namespace, attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM u WHERE CASE WHEN EXISTS (SELECT FROM u) THEN (SELECT tickwise.feed_watched()) END GROUP BY state, namespace, attempt) g
),
again AS (
  SELECT run_id FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = {RunState.RUNNING} AND (run_id, token) IN (SELECT run_id, token FROM b OFFSET 0)
)
SELECT run_id, (SELECT CASE WHEN r.overlap > 0 THEN r.job_id ELSE r.run_id END FROM tickwise.runs r
                WHERE r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = {RunState.DISPATCHED} OFFSET 0)
FROM b
WHERE (SELECT count(*) FROM noted) >= 0 AND run_id NOT IN (SELECT run_id FROM u) AND run_id NOT IN (SELECT run_id FROM again)

-- name: runs_leaving
-- Those of the runs $1 whose namespace is leaving this database, or has left it.
SELECT r.run_id FROM tickwise.runs r
WHERE r.run_id = ANY($1::uuid[]) AND r.namespace IN (SELECT d.namespace FROM tickwise.shard_departures d)
UNION ALL
SELECT d.run_id FROM tickwise.shard_departed_runs d WHERE d.run_id = ANY($1)

-- name: runs_departed
-- The namespace of one of the runs $1 that left with it, and that does not work in its new place yet.
SELECT namespace FROM tickwise.shard_departed_runs WHERE run_id = ANY($1::uuid[]) LIMIT 1

-- name: finish_ended
-- Delete held runs that have already ended; the record stays. $1 executor, $2 runs. Returns those.
DELETE FROM tickwise.runs r
WHERE run_id = ANY($2::uuid[]) AND holder = $1
  AND (SELECT true FROM tickwise.history h WHERE h.run_id = r.run_id OFFSET 0)
RETURNING run_id

-- name: completions_report
-- Note runs that are about to end, and whose end starts others. $1 executor, $2 runs, $3 tokens, $4 whether they succeeded.
-- Runs that ended before are left alone: their successors may have been made.
INSERT INTO tickwise.follows (since, run_id, succeeded)
SELECT tickwise.now(), r.run_id, f.succeeded
FROM (SELECT run_id, token FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) AND holder = $1 FOR UPDATE) r
JOIN unnest($2, $3::bigint[], $4::boolean[]) AS f(run_id, token, succeeded) ON f.run_id = r.run_id AND f.token = r.token
ON CONFLICT DO NOTHING

-- name: finish_refused
-- Of final outcomes that may not have been applied, those that are not on record with the same values: the refused.
-- `domain/rules/repeats.py` has the rule. $1 runs, $2 tokens, $3 states, $4 reasons, $5 executor.
SELECT f.run_id FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::text[]) AS f(run_id, token, state, reason)
WHERE (SELECT h.token = f.token AND h.state = f.state AND h.executor = $5
              AND (f.state <> {RunState.FAILED} OR h.reason IS NOT DISTINCT FROM f.reason)
       FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS DISTINCT FROM true

-- name: skip
-- Attempts that will not run, for a reason on record: SKIPPED into history. $1 executor, $2 … one array per column. Returns the runs that
-- were taken, the job if a run of it waits for another one, the namespace, and the key of the reserved slot.
WITH f AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::float8[], $6::text[], $7::text[], $8::text[])
    AS f(run_id, token, started, ended, reason, error, result)
),
d AS (
  DELETE FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = {RunState.DISPATCHED} AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)
  RETURNING due, nominal, queued, claimed, holder, run_id, job_id, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                failures, crashes, trigger, namespace, reason, error, result, definition, origin)
  SELECT d.due, d.nominal, d.queued, d.claimed, CASE WHEN f.started > 0 THEN to_timestamp(f.started) END, to_timestamp(f.ended), d.holder,
         f.token, d.run_id, d.job_id, {RunState.SKIPPED}, {RunState.DISPATCHED}, d.attempt, d.failures, d.crashes, d.trigger, d.namespace, f.reason, f.error,
         f.result, d.definition, d.origin
  FROM d JOIN f USING (run_id)
)
SELECT run_id, CASE WHEN (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) THEN d.job_id END, namespace, limit_key FROM d

-- name: release_refused
-- Of attempts that may not have been released, those whose release is not on record either: the refused. A revoked run leaves no record, so
-- a repeat of its release finds none. A store that releases attempts itself gives a reason that no executor reports
-- (`domain/rules/repeats.py`). $1 runs, $2 tokens, $3 states (RETRYING or QUEUED), $4 reasons, $5 executor. Scalar subqueries,
-- because the planner may answer EXISTS here by reading a whole table into a hash.
SELECT f.run_id FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::text[]) AS f(run_id, token, state, reason)
WHERE (SELECT count(*) = 0 FROM tickwise.attempts a
       WHERE a.run_id = f.run_id AND a.token = f.token AND a.state = f.state AND a.executor = $5
         AND (f.state <> {RunState.QUEUED} OR a.reason IS NOT DISTINCT FROM f.reason))
  AND NOT CASE f.state
    WHEN {RunState.RETRYING} THEN false
    ELSE (SELECT count(*) > 0 FROM tickwise.runs r
          WHERE r.run_id = f.run_id AND r.token = f.token AND r.holder = 0 AND r.state = {RunState.QUEUED})
      OR f.reason IS NOT DISTINCT FROM 'revoked'
         AND (SELECT count(*) = 0 FROM tickwise.runs_shown r WHERE r.run_id = f.run_id) END
