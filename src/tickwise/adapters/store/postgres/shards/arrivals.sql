-- name: arrival
-- The progress of the namespace $1 to this database; no row: it has not begun to.
SELECT move_id, state, source, cursors::text AS cursors FROM tickwise.shard_arrivals WHERE namespace = $1

-- name: arrival_begin
-- The namespace $1 begins to come from the database $2, in the move $3.
INSERT INTO tickwise.shard_arrivals (begun, move_id, state, namespace, source) VALUES (clock_timestamp(), $3, 'copying', $1, $2)
ON CONFLICT (namespace) DO UPDATE SET begun = excluded.begun, move_id = excluded.move_id, state = 'copying', source = excluded.source, cursors = '{}'

-- name: arrival_staging_make
-- Make the table in which rows wait. $1 table, $2 namespace, $3 key (NULL: none is replaced).
SELECT tickwise.shard_staging_make($1, $2, $3)

-- name: arrival_staging_drop
-- Drop it. $1 table, $2 namespace.
SELECT tickwise.shard_staging_drop($1, $2)

-- name: arrival_staging_empty
-- Empty it. $1 table, $2 namespace.
SELECT tickwise.shard_staging_empty($1, $2)

-- name: arrival_incoming
-- Make a table for the rows of the table $1 that come, for this transaction.
SELECT tickwise.shard_incoming($1)

-- name: arrival_put
-- Put those rows in their place. $1 table, $2 namespace, $3 whether they wait, $4 key, $5 the keys that are replaced.
SELECT tickwise.shard_put($1, $2, $3, $4, $5)

-- name: arrival_incoming_drop
-- They are in their place.
DROP TABLE pg_temp.incoming

-- name: arrival_cursor
-- The table $2 of the namespace $1 is copied up to the key $3 (NULL: all of it).
UPDATE tickwise.shard_arrivals SET cursors = jsonb_set(cursors, ARRAY[$2::text], coalesce(to_jsonb($3::text), 'null')) WHERE namespace = $1

-- name: arrival_lane
-- The number of a lane here, which is made if it is not there. $1 namespace, $2 priority, $3 queue, $4 labels.
INSERT INTO tickwise.lanes (namespace, priority, queue, requires) VALUES ($1, $2::smallint, $3, $4::text[])
ON CONFLICT (namespace, queue, priority, requires) DO UPDATE SET idle = NULL RETURNING lane

-- name: arrival_holders
-- Of executors, given as a list of objects, those that are known here under another name: they cannot hold what comes. The others are
-- known from now on, with the lease that they have in the other database. $1 rows.
WITH h AS (SELECT * FROM jsonb_populate_recordset(NULL::tickwise.executors, $1::text::jsonb)),
n AS (
  INSERT INTO tickwise.executors (born, lease, gone, lease_seconds, slots, name, queues, labels, functions, results_key, executor, namespaces)
  OVERRIDING SYSTEM VALUE
  SELECT born, lease, gone, lease_seconds, slots, name, queues, labels, functions, results_key, executor, namespaces FROM h
  ON CONFLICT (executor) DO NOTHING)
SELECT h.executor, h.name FROM h JOIN tickwise.executors e ON e.executor = h.executor AND e.name <> h.name ORDER BY h.executor

-- name: arrival_staged
-- All of the namespace $1 is here. Tokens above $2 and numbers of entries above $3 are drawn from now on.
WITH l AS MATERIALIZED (SELECT tickwise.shard_lift($2, $3))
UPDATE tickwise.shard_arrivals SET state = 'staged' WHERE namespace = $1 AND state <> 'arrived' AND (SELECT count(*) FROM l) > 0

-- name: arrival_staging
-- The name of that table. $1 table, $2 namespace.
SELECT tickwise.shard_staging($1, $2)

-- name: arrival_let_in
-- The rows of the tables $1 of the namespace $2 that waited take effect.
SELECT tickwise.shard_let_in($1, $2)

-- name: arrival_done
-- The namespace $1 works here: what a process knows of rules and of channels is old.
WITH r AS (UPDATE tickwise.rules_version SET version = version + 1),
n AS (UPDATE tickwise.notices_version SET version = version + 1),
d AS (DELETE FROM tickwise.shard_departures WHERE namespace = $1)
UPDATE tickwise.shard_arrivals SET state = 'arrived', cursors = '{}' WHERE namespace = $1

-- name: arrival_name_drop
-- The row of the namespace $1 that was here makes room for the one that comes.
DELETE FROM tickwise.namespaces WHERE name = $1

-- name: arrival_forget
-- The namespace $1 does not come.
DELETE FROM tickwise.shard_arrivals WHERE namespace = $1
