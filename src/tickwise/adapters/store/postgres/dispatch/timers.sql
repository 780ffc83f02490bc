-- name: fires_park
-- Pause jobs whose schedule makes too many runs, while this transaction has their timers. $1 jobs, $2 due times of their timers as taken,
-- $3 reasons. Returns those. A job that another transaction is changing is left alone: a change locks the job before its timer, so waiting
-- for it here would be a deadlock.
UPDATE tickwise.jobs j
SET standing = {JobStanding.PAUSED}, version = version + 1, updated = tickwise.now(), pause_until = NULL, paused_by = 'fuse',
    task_changed = coalesce(task_changed, updated),
    pause_reason = (SELECT f.reason FROM unnest($1, $3::text[]) AS f(job_id, reason) WHERE f.job_id = j.job_id LIMIT 1),
    paused = CASE WHEN standing = {JobStanding.PAUSED} AND (pause_until IS NULL OR pause_until > tickwise.now()) THEN paused ELSE tickwise.now() END
WHERE job_id = ANY(ARRAY(
    SELECT o.job_id FROM tickwise.jobs o WHERE o.job_id = ANY($1::uuid[]) AND o.standing <> {JobStanding.CANCELLED} FOR NO KEY UPDATE SKIP LOCKED))
  AND job_id = ANY(ARRAY(
    SELECT t.job_id FROM tickwise.timers t JOIN unnest($1, $2::float8[]) AS f(job_id, due) ON f.job_id = t.job_id
    WHERE t.job_id = ANY($1) AND t.due = to_timestamp(f.due)))
RETURNING job_id

-- name: timers_fire
-- Turn the timers of one-time jobs within the horizon into runs. $1 limit, $2 horizon in seconds, $3 mark to read from.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
t AS (
  DELETE FROM tickwise.timers
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.timers
      WHERE run_id IS NOT NULL AND due <= (SELECT at FROM clock) + $2::float8 * interval '1 second'
        AND due >= to_timestamp($3::float8)
      ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING job_id, due, run_id
),
r AS (
  INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
  SELECT t.due, greatest(tickwise.place(t.due), (SELECT at FROM clock)), (SELECT at FROM clock), t.run_id, t.job_id, j.lane, j.namespace,
         CASE WHEN octet_length(j.definition) <= 8192 THEN j.definition END
  FROM t CROSS JOIN LATERAL (
    SELECT lane, namespace, definition FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
  ON CONFLICT DO NOTHING
  RETURNING run_id, job_id, namespace
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM r WHERE CASE WHEN EXISTS (SELECT FROM r) THEN (SELECT tickwise.feed_watched()) END GROUP BY namespace) g
)
SELECT count(*), date_part('epoch', max(due)), (SELECT date_part('epoch', at) FROM clock) FROM t WHERE (SELECT count(*) FROM noted) >= 0

-- name: fires_counted
-- Count fires in the current minute, and say how many there were in it. $1 namespaces, $2 how many more.
INSERT INTO tickwise.fires AS f (minute, namespace, fires)
SELECT date_bin('1 minute', tickwise.now(), to_timestamp(0)), n.namespace, n.fires
FROM unnest($1::text[], $2::bigint[]) AS n(namespace, fires)
ORDER BY n.namespace  -- two that count the same ones wait for each other in one order
ON CONFLICT (namespace, minute) DO UPDATE SET fires = f.fires + excluded.fires
RETURNING namespace, fires

-- name: fires_near
-- The store's clock, which rules stand, and whether a timer that needs a decision is due within the horizon. $1 horizon in seconds,
-- $2 those of one-time jobs that would need no decision too.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at)
SELECT date_part('epoch', (SELECT at FROM clock)), (SELECT version FROM tickwise.rules_version),
       EXISTS (SELECT FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT at FROM clock) + $1::float8 * interval '1 second')
       OR $2::boolean AND EXISTS (
         SELECT FROM tickwise.timers WHERE run_id IS NOT NULL AND due <= (SELECT at FROM clock) + $1 * interval '1 second')

-- name: fires_begin
-- Begin to take timers. No rule changes until this transaction ends: what a timer is held back by still stands when that is written.
-- The number spells "tickwise", but for its last bits.
BEGIN;
SELECT pg_advisory_xact_lock_shared(8388353586463617382)

-- name: fires_now
-- The store's clock, and which rules stand.
SELECT date_part('epoch', tickwise.now()), (SELECT version FROM tickwise.rules_version)

-- name: fires_take_outdated
-- Timers after the horizon that were computed with other zone data, held by this transaction; those held back left out. $1 horizon
-- in seconds, $2 limit, $3 that zone data, $4 those of one-time jobs that need no decision too. Two ranges, so that timers of the
-- right version are not read.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers
      WHERE zone_data < $3::text AND zone_data IS NOT NULL AND hold IS NULL AND due > (SELECT until FROM near)
        AND ($4::boolean OR run_id IS NULL)
      ORDER BY zone_data, due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers
      WHERE zone_data > $3::text AND zone_data IS NOT NULL AND hold IS NULL AND due > (SELECT until FROM near)
        AND ($4::boolean OR run_id IS NULL)
      ORDER BY zone_data, due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j

-- name: fires_take_without
-- As `fires_take`, while some jobs wait: these are left out. $1 horizon in seconds, $2 limit, $3 jobs, $4 those of one-time jobs that
-- would need no decision too.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT until FROM near)
        AND job_id NOT IN (SELECT unnest($3::uuid[]))
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE $4::boolean AND run_id IS NOT NULL AND due <= (SELECT until FROM near)
        AND job_id NOT IN (SELECT unnest($3::uuid[]))
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j

-- name: fires_take_all
-- As `fires_take`, and those of one-time jobs that would need no decision too. $1 horizon in seconds, $2 limit.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT until FROM near)
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NOT NULL AND due <= (SELECT until FROM near)
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j

-- name: fires_take
-- Timers that need a decision and are due within the horizon, the earliest first, held by this transaction. $1 horizon in seconds,
-- $2 limit. Nearly all of their jobs last, so the others are looked for second.
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM (
  SELECT * FROM tickwise.timers
  WHERE run_id IS NULL AND due <= (SELECT tickwise.now()) + $1::float8 * interval '1 second'
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) t
CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs WHERE job_id = t.job_id AND lasting
  UNION ALL SELECT namespace, definition, labels, lane FROM tickwise.jobs WHERE job_id = t.job_id AND NOT lasting LIMIT 1) j
