-- name: lines_lock
-- Lock the lines of these runs (of their jobs, those of a backfill apart): until this transaction ends no other one settles a start there.
-- Always in one order; two lines of one number wait for each other, and the first number spells "line". $1 runs.
SELECT pg_advisory_xact_lock(1818848869, line)
FROM (SELECT DISTINCT hashtext(job_id::text || (trigger = {Trigger.BACKFILL})::text) AS line FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY line OFFSET 0) l

-- name: starts_look
-- The facts for settling attempts that are about to begin. $1 executor, $2 runs, $3 tokens.
SELECT r.run_id, r.namespace, r.rate_key, date_part('epoch', r.slot) AS slot, date_part('epoch', coalesce(r.place, greatest(r.ready, r.due))) AS place,
       r.lane IN (SELECT lane FROM tickwise.lanes_held)
         OR (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(r.job_id) AS held
FROM tickwise.runs r JOIN unnest($2::uuid[], $3::bigint[]) AS b(run_id, token) ON b.run_id = r.run_id AND b.token = r.token
WHERE r.run_id = ANY($2) AND r.holder = $1 AND r.state = {RunState.DISPATCHED}

-- name: starts_lock
-- As `starts_look`, and lock these runs until this transaction ends. $1 executor, $2 runs, $3 tokens.
WITH r AS MATERIALIZED (
  SELECT * FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) ORDER BY run_id FOR UPDATE
)
SELECT r.run_id, r.namespace, r.rate_key, date_part('epoch', r.slot) AS slot, date_part('epoch', coalesce(r.place, greatest(r.ready, r.due))) AS place,
       r.lane IN (SELECT lane FROM tickwise.lanes_held)
         OR (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(r.job_id) AS held
FROM r JOIN unnest($2::uuid[], $3::bigint[]) AS b(run_id, token) ON b.run_id = r.run_id AND b.token = r.token
WHERE r.holder = $1 AND r.state = {RunState.DISPATCHED}

-- name: starts_begin
-- Begin the attempts that this transaction has locked (`starts_lock`), but for those whose queue is on hold by now or whose job is stopped; and lock these keys:
-- until it ends no other transaction starts, or wakes, a run under them (as `limits_lock`). Returns those that began. $1 executor, $2 runs,
-- $3 tokens, $4 instants, $5 their `on_unknown`, $6 namespaces, $7 keys (each pair once).
WITH b AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::smallint[]) AS b(run_id, token, started, on_unknown)
),
keys AS (
  INSERT INTO tickwise.limits AS l (namespace, limit_key)
  SELECT n.namespace, n.limit_key FROM unnest($6::text[], $7::text[]) AS n(namespace, limit_key)
  ORDER BY n.namespace, n.limit_key
  ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false
)
UPDATE tickwise.runs r SET state = {RunState.RUNNING}, started = to_timestamp(b.started), on_unknown = b.on_unknown, limit_key = NULL,
  slot = NULL, rate_key = NULL
FROM b
WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = {RunState.DISPATCHED} AND r.overlap <= 0
  AND r.lane NOT IN (SELECT lane FROM tickwise.lanes_held)
  AND NOT ((SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(r.job_id))
RETURNING r.run_id

-- name: starts_return
-- Release attempts that may not begin, claimable, as if they had never been claimed. $1 executor, $2 runs, $3 tokens.
UPDATE tickwise.runs
SET holder = 0, token = 0, state = {RunState.QUEUED}, claimed = '-infinity', attempt = attempt - 1,
    ready = greatest((SELECT tickwise.now()), due, slot)
WHERE run_id = ANY($2::uuid[]) AND holder = $1 AND state = {RunState.DISPATCHED}
  AND (run_id, token) IN (SELECT * FROM unnest($2, $3::bigint[]) OFFSET 0)

-- name: starts_note
-- Note in the feed what became of runs that were to begin, unless they have ended or are as they were. $1 runs.
SELECT tickwise.feed_note(state, namespace, runs, jobs, attempts)
FROM (SELECT state, namespace, array_agg(run_id) AS runs, array_agg(job_id) AS jobs, array_agg(attempt) AS attempts
      FROM tickwise.runs WHERE (SELECT tickwise.feed_watched()) AND run_id = ANY($1::uuid[]) AND state <> {RunState.DISPATCHED}
      GROUP BY state, namespace) g
