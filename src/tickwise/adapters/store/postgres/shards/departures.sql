-- name: departure
-- The progress of the namespace $1 from this database; no row: it has not begun to.
SELECT move_id, state, goal, cleaned, begun FROM tickwise.shard_departures WHERE namespace = $1

-- name: departure_begin
-- The namespace $1 begins to leave for the database $2, in the move $3. What was noted of an earlier try is void.
WITH c AS (DELETE FROM tickwise.shard_changes WHERE namespace = $1),
r AS (DELETE FROM tickwise.shard_departed_runs WHERE namespace = $1)
INSERT INTO tickwise.shard_departures (begun, until, move_id, state, namespace, goal)
VALUES (clock_timestamp(), clock_timestamp(), $3, 'copying', $1, $2)
ON CONFLICT (namespace) DO UPDATE
SET begun = excluded.begun, until = excluded.until, move_id = excluded.move_id, state = 'copying', cleaned = false, goal = excluded.goal

-- name: departure_watch
-- Watch a table. $1 its name, $2 how its rows name their namespace, $3 the key whose changes are noted (NULL: they need not be), $4 events.
SELECT tickwise.shard_watch_table($1, tickwise.shard_owner($2), CASE WHEN $3::text IS NULL THEN '' ELSE format('c.%I::text', $3::text) END, $4::text[])

-- name: departure_watch_runs
-- Watch the active runs of the namespace $1, or no longer ($2).
SELECT tickwise.shard_watch_runs($1, $2)

-- name: departure_page
-- The last key of the next page. $1 table, $2 how its rows name their namespace, $3 namespace, $4 key, $5 after this one, $6 at most.
SELECT tickwise.shard_page($1, $2, $3, $4, $5, $6)

-- name: departure_read
-- The statement that reads rows. $1 table, $2 how they name their namespace, $3 namespace, $4 key, $5 after this one, $6 up to this one, $7
-- since this time, $8 these keys.
SELECT tickwise.shard_read($1, $2, $3, $4, $5, $6, $7, $8)

-- name: departure_columns
-- The columns of the table $1.
SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a
WHERE a.attrelid = format('tickwise.%I', $1::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''

-- name: departure_lanes
-- The lanes of the namespace $1.
SELECT lane, priority, queue, requires FROM tickwise.lanes WHERE namespace = $1 ORDER BY lane

-- name: departure_lanes_table
-- For this session: the numbers of lanes in the other database.
CREATE TEMP TABLE IF NOT EXISTS lanes_moved (here int PRIMARY KEY, there int NOT NULL)

-- name: departure_lanes_put
-- $1 numbers here, $2 numbers there.
INSERT INTO pg_temp.lanes_moved SELECT * FROM unnest($1::int[], $2::int[]) ON CONFLICT (here) DO UPDATE SET there = excluded.there

-- name: departure_changes
-- Take the oldest changes of the namespace $1, at most $2: tables and keys.
WITH c AS (
  DELETE FROM tickwise.shard_changes WHERE change IN (
    SELECT change FROM tickwise.shard_changes WHERE namespace = $1 ORDER BY change LIMIT $2) RETURNING relation, key)
SELECT relation, array_agg(DISTINCT key::uuid) AS keys, count(*) AS changes FROM c GROUP BY relation

-- name: departure_lock
-- Hold what batches of all namespaces would take of the namespace $1: they pass over rows that are locked. Timers that are due within $2
-- seconds, and free runs.
WITH t AS MATERIALIZED (
  SELECT t.job_id FROM tickwise.timers t
  WHERE t.due <= clock_timestamp() + $2::float8 * interval '1 second'
    AND (SELECT j.namespace FROM tickwise.jobs j WHERE j.job_id = t.job_id LIMIT 1) = $1 ORDER BY t.due FOR UPDATE OF t),
r AS MATERIALIZED (
  SELECT r.run_id FROM tickwise.runs r
  WHERE r.lane = ANY(ARRAY(SELECT l.lane FROM tickwise.lanes l WHERE l.namespace = $1)) AND r.namespace = $1 AND r.holder = 0
  ORDER BY r.run_id FOR UPDATE OF r)
SELECT (SELECT count(*) FROM t) AS timers, (SELECT count(*) FROM r) AS runs

-- name: departure_await
-- Wait for the transactions that have written for the namespace $1, and hold up new ones until this one ends.
SELECT pg_advisory_xact_lock(8388355, hashtext($1))

-- name: departure_await_seconds
-- Give up waiting for a lock after $1.
SELECT set_config('lock_timeout', $1, true)

-- name: departure_fence
-- The namespace $1 takes no writes for $3 seconds, in the move $2. Whether it was there to be fenced.
UPDATE tickwise.shard_departures SET state = 'fenced', until = clock_timestamp() + $3::float8 * interval '1 second'
WHERE namespace = $1 AND move_id = $2 AND state IN ('copying', 'fenced') RETURNING true

-- name: departure_unfence
-- The namespace $1 takes writes again, and its changes are noted.
UPDATE tickwise.shard_departures SET state = 'copying' WHERE namespace = $1 AND state = 'fenced'

-- name: departure_left
-- The namespace $1 has left in the move $2, if its fence holds still. Whether it has.
UPDATE tickwise.shard_departures SET state = 'left'
WHERE namespace = $1 AND move_id = $2 AND state = 'fenced' AND until > clock_timestamp() RETURNING true

-- name: departure_runs_noted
-- Note the held runs of the namespace $1.
INSERT INTO tickwise.shard_departed_runs (at, run_id, namespace)
SELECT clock_timestamp(), run_id, namespace FROM tickwise.runs
WHERE lane = ANY(ARRAY(SELECT l.lane FROM tickwise.lanes l WHERE l.namespace = $1)) AND namespace = $1 AND holder <> 0
ON CONFLICT DO NOTHING

-- name: departure_runs_forget
-- The namespace $1 works in its new place: reports of its runs belong there.
DELETE FROM tickwise.shard_departed_runs WHERE namespace = $1

-- name: departure_numbers
-- No token and no number of an audit entry of this database is above these.
SELECT (SELECT last_value FROM tickwise.fence) AS token, (SELECT last_value FROM tickwise.audit_entries) AS entry

-- name: departure_remove
-- Remove rows of a namespace that is not here; how many. $1 table, $2 how they name it, $3 namespace, $4 at most (NULL: all).
SELECT tickwise.shard_remove($1, $2, $3, $4)

-- name: departure_check_gone
-- Fail unless the namespace $1 has left this database, or has yet to arrive.
SELECT tickwise.shard_check_gone($1)

-- name: departure_remove_audit
-- Remove entries of the audit log of a namespace that is not here; how many. $1 namespace, $2 at most of each table.
SELECT tickwise.shard_audit_clean($1, $2)

-- name: departure_lanes_idle
-- Note that nothing uses the lanes of the namespace $1 any more.
UPDATE tickwise.lanes SET idle = tickwise.now() WHERE namespace = $1

-- name: departure_cleaned
-- Nothing of the namespace $1 is left here.
UPDATE tickwise.shard_departures SET cleaned = true WHERE namespace = $1 AND state = 'left'

-- name: departure_is_here
-- Check whether there is a job, an active or an ended run of the namespace $1.
SELECT EXISTS (SELECT FROM tickwise.jobs WHERE namespace = $1) OR EXISTS (SELECT FROM tickwise.runs WHERE namespace = $1)
    OR EXISTS (SELECT FROM tickwise.history WHERE namespace = $1)

-- name: departure_forget
-- The namespace $1 does not leave, or is back.
WITH c AS (DELETE FROM tickwise.shard_changes WHERE namespace = $1)
DELETE FROM tickwise.shard_departures WHERE namespace = $1

-- name: departures
-- The namespaces that are leaving or have left, and whether none of their rows is left.
SELECT namespace, cleaned FROM tickwise.shard_departures ORDER BY namespace

-- name: departure_holders
-- The executors that hold runs of the namespace $1, as a list of objects.
SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')::text FROM tickwise.executors e
WHERE e.executor IN (SELECT r.holder FROM tickwise.runs r WHERE r.namespace = $1 AND r.holder <> 0)
