-- name: upkeep_lock
-- Lock the upkeep for one scheduler at a time; the lock ends with its session. The number spells "tickwise", but for its last bit.
SELECT pg_try_advisory_lock(8388353586463617380)

-- name: partitions
-- The existing partitions by time.
SELECT c.relname FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('tickwise.history'::regclass, 'tickwise.jobs_passing'::regclass)
ORDER BY c.relname

-- name: history_rest_trim
-- Runs that lie in no partition of their time and are past it; how many. $1 ends before this, $2 those of failed runs, $3 at most.
WITH gone AS (
  DELETE FROM tickwise.history_rest
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.history_rest
      WHERE ended < to_timestamp($1::float8) AND (state <> {RunState.FAILED} OR ended < to_timestamp($2::float8))
        AND run_id NOT IN (SELECT run_id FROM tickwise.follows)
      LIMIT $3))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: attempts_trim
-- Attempts of runs that are no longer on record; how many. $1 the id below which even failed runs are past their time, $2 at most.
WITH gone AS (
  DELETE FROM tickwise.attempts
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.attempts a
      WHERE run_id < $1 AND NOT EXISTS (SELECT FROM tickwise.runs_shown r WHERE r.run_id = a.run_id)
      LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: letters_trim
-- Delete the settlements of runs that are no longer on record; returns how many. $1 the id below which even failed runs are past their
-- time, $2 at most.
WITH gone AS (
  DELETE FROM tickwise.letters
  WHERE run_id = ANY(ARRAY(
      SELECT run_id FROM tickwise.letters l
      WHERE run_id < $1 AND (SELECT true FROM tickwise.history h WHERE h.run_id = l.run_id OFFSET 0) IS NULL
      LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: error_letters_trim
-- Forget the groups of runs that are no longer on record; returns how many. $1 the id below which even failed runs are past their time,
-- $2 at most.
WITH gone AS (
  DELETE FROM tickwise.error_letters
  WHERE run_id = ANY(ARRAY(
      SELECT run_id FROM tickwise.error_letters e
      WHERE run_id < $1 AND (SELECT true FROM tickwise.history h WHERE h.run_id = e.run_id OFFSET 0) IS NULL
      LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: error_groups_trim
-- Groups that have not failed since failed runs are past their time; how many. $1 that instant, $2 at most.
WITH gone AS (
  DELETE FROM tickwise.error_groups
  WHERE group_id = ANY(ARRAY(SELECT group_id FROM tickwise.error_groups WHERE last_seen < to_timestamp($1::float8) LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: error_hours_trim
-- Counts of errors in hours that began more than $1 seconds ago; how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.error_hours
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.error_hours WHERE hour < tickwise.now() - $1::float8 * interval '1 second' ORDER BY hour LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: alerts_trim
-- Delete alerts that were closed more than $1 seconds ago; returns how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.alerts
  WHERE alert_id = ANY(ARRAY(
      SELECT alert_id FROM tickwise.alerts
      WHERE state = 'closed' AND closed_at < tickwise.now() - $1::float8 * interval '1 second' ORDER BY closed_at LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: notices_trim
-- Delete notices that ended more than $1 seconds ago; returns how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.notices
  WHERE notice_id = ANY(ARRAY(
      SELECT notice_id FROM tickwise.notices
      WHERE state <> 'waiting' AND ended_at < tickwise.now() - $1::float8 * interval '1 second' ORDER BY ended_at LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: notices_noted_trim
-- Forget events that were noted once more than $1 seconds ago; returns how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.notices_noted
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.notices_noted WHERE at < tickwise.now() - $1::float8 * interval '1 second' ORDER BY at LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: gates_trim
-- Concurrency keys that no run has or waits for, and rates whose last start is older than any rate reaches; at most $1 of each.
WITH l AS (
  DELETE FROM tickwise.limits
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.limits l
      WHERE (SELECT true FROM tickwise.runs r WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key LIMIT 1) IS NULL
      LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
),
r AS (
  DELETE FROM tickwise.rates
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.rates WHERE started < tickwise.now() - interval '400 days' LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT greatest((SELECT count(*) FROM l), (SELECT count(*) FROM r))

-- name: tallies_fold
-- Fold the newest counts into the hours; returns how many rows were folded, at most $1. A concurrent reader sees the state before or after.
WITH gone AS (
  DELETE FROM tickwise.tallies_new WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.tallies_new LIMIT $1)) RETURNING *
),
folded AS (
  INSERT INTO tickwise.tallies AS t (hour, runs, state, namespace)
  SELECT hour, sum(runs), state, namespace FROM gone GROUP BY namespace, hour, state
  ON CONFLICT (namespace, hour, state) DO UPDATE SET runs = t.runs + excluded.runs
)
SELECT count(*) FROM gone

-- name: tallies_trim
-- Counts of hours before $1; how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.tallies
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.tallies WHERE hour < to_timestamp($1::float8) ORDER BY hour LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: operations_trim
-- Operations that ended before this. $1 that instant.
DELETE FROM tickwise.operations WHERE ended < to_timestamp($1::float8)

-- name: executors_trim
-- Delete executors that no run names any more, and requests to stop runs that no executor holds. $1 runs that ended after this are kept.
WITH requests AS (
  DELETE FROM tickwise.cancel_requests c
  WHERE NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token)
)
DELETE FROM tickwise.executors WHERE settled AND gone < least(to_timestamp($1::float8), tickwise.now() - interval '1 hour')

-- name: incidents_trim
-- Delete the incidents before the oldest runs that are kept. $1 those ended after this.
DELETE FROM tickwise.incidents WHERE ended < to_timestamp($1::float8)

-- name: fires_trim
-- Counts of minutes that are over.
DELETE FROM tickwise.fires WHERE minute < tickwise.now() - interval '1 hour'

-- name: receipts_trim
-- Answers that nobody may repeat any more; how many. $1 at most.
WITH gone AS (
  DELETE FROM tickwise.receipts
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.receipts WHERE expires <= tickwise.now() LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM gone

-- name: lanes_heal
-- Runs and jobs that were written into freed lanes: the lane comes back with its number, or they go to the lane that has taken its
-- place. A job may make its first run there long after the number is forgotten. Reads all jobs if a lane is freed. How many lanes.
WITH lost AS MATERIALIZED (
  SELECT f.*, l.lane AS instead FROM tickwise.lanes_freed f LEFT JOIN tickwise.lanes l USING (namespace, queue, priority, requires)
  WHERE (SELECT true FROM tickwise.runs r WHERE r.lane = f.lane LIMIT 1)
     OR f.lane IN (SELECT j.lane FROM tickwise.jobs j WHERE j.lane IN (SELECT lane FROM tickwise.lanes_freed))
),
back AS (
  INSERT INTO tickwise.lanes (lane, priority, namespace, queue, requires) OVERRIDING SYSTEM VALUE
  SELECT lane, priority, namespace, queue, requires FROM lost WHERE instead IS NULL
  ON CONFLICT DO NOTHING RETURNING lane
),
freed AS (DELETE FROM tickwise.lanes_freed WHERE lane IN (SELECT lane FROM back)),
jobs AS (
  UPDATE tickwise.jobs j SET lane = lost.instead FROM lost WHERE lost.instead IS NOT NULL AND j.lane = lost.lane
),
runs AS (UPDATE tickwise.runs r SET lane = lost.instead FROM lost WHERE lost.instead IS NOT NULL AND r.lane = lost.lane)
SELECT count(*) FROM lost

-- name: lanes_trim
-- Forget lanes that were freed more than $1 seconds ago, but for those in which there is a job or run: they are yet to be healed. (Of
-- two numbers of one lane only one comes back in a round.) Reads all jobs if there are such lanes.
WITH old AS MATERIALIZED (
  SELECT lane FROM tickwise.lanes_freed WHERE freed < tickwise.now() - $1::float8 * interval '1 second'
),
used AS MATERIALIZED (SELECT j.lane FROM tickwise.jobs j WHERE j.lane IN (SELECT lane FROM old))
DELETE FROM tickwise.lanes_freed f
WHERE f.lane IN (SELECT lane FROM old) AND f.lane NOT IN (SELECT lane FROM used)
  AND (SELECT true FROM tickwise.runs r WHERE r.lane = f.lane LIMIT 1) IS NULL

-- name: lanes_tight
-- The lanes of namespaces that have more than $2, or that are gone, and if there are more than $1 in all, every lane.
SELECT coalesce(array_agg(lane), '{}') FROM (
  SELECT lane, namespace, count(*) OVER () AS of_all, count(*) OVER (PARTITION BY namespace) AS of_namespace FROM tickwise.lanes) l
WHERE of_all > $1 OR of_namespace > $2
   OR namespace IN (SELECT name FROM tickwise.namespaces_removed) AND namespace NOT IN (SELECT name FROM tickwise.namespaces)

-- name: lanes_idle
-- Note which of the lanes $1 no job and no run uses, and since when. Reads all jobs.
WITH used AS MATERIALIZED (
  SELECT lane FROM tickwise.jobs WHERE lane = ANY($1::int[])
  UNION SELECT lane FROM tickwise.runs WHERE lane = ANY($1::int[])
)
UPDATE tickwise.lanes l SET idle = CASE WHEN l.lane NOT IN (SELECT lane FROM used) THEN tickwise.now() END
WHERE lane = ANY($1::int[]) AND (idle IS NULL) <> (l.lane IN (SELECT lane FROM used))

-- name: lanes_free
-- Free lanes that have been idle for $1 seconds, and were found so a moment ago. $2 lanes that were looked at. How many.
WITH gone AS (
  DELETE FROM tickwise.lanes
  WHERE lane = ANY($2::int[]) AND idle < tickwise.now() - $1::float8 * interval '1 second'
  RETURNING lane, priority, namespace, queue, requires
),
noted AS (
  INSERT INTO tickwise.lanes_freed (freed, lane, priority, namespace, queue, requires)
  SELECT tickwise.now(), lane, priority, namespace, queue, requires FROM gone
)
SELECT count(*) FROM gone

-- name: partition_make
-- Make a partition. $1 parent, $2 name, $3 first id, $4 the id after the last.
SELECT tickwise.service_partition_make($1, $2, $3, $4)

-- name: history_retire
-- Give up a partition of history. $1 name, $2 first id, $3 the id after the last, $4 ends before this are past their time, $5 those
-- of failed runs.
SELECT tickwise.service_history_retire($1, $2, $3, to_timestamp($4::float8), to_timestamp($5::float8))

-- name: jobs_retire
-- Give up a partition of one-time jobs. $1 name, $2 first id, $3 the id after the last.
SELECT tickwise.service_jobs_retire($1, $2, $3)

-- name: audit_make
-- Make the partition of the day that is $1 days after 1970-01-01; its name, if it was made.
SELECT tickwise.audit_make(date '1970-01-01' + $1::int)

-- name: audit_retire
-- Drop the entries of days before the one that is $1 days after 1970-01-01, those of a few days at a time; the partitions that were dropped.
SELECT tickwise.audit_retire(date '1970-01-01' + $1::int)

-- name: audit_trim
-- Entries and seals that are gone by a checkpoint, and lie in no partition of their own; how many. $1 at most.
SELECT tickwise.audit_trim($1)
