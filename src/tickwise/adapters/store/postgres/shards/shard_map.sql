-- name: shard_map_read
-- The map as of one instant: its version, rows (number, database, state), rows (namespace, shard, goal).
SELECT version,
       ARRAY(SELECT (number, cluster_id, state) FROM tickwise.shards ORDER BY number) AS shards,
       ARRAY(SELECT (namespace, shard, moving_to) FROM tickwise.shard_places ORDER BY namespace) AS places
FROM tickwise.shard_map

-- name: shard_map_lock
-- Let one transaction at a time change the map.
SELECT version FROM tickwise.shard_map FOR UPDATE

-- name: shard_of_cluster
-- The shard of the database $1.
SELECT number, state FROM tickwise.shards WHERE cluster_id = $1

-- name: shard_add
-- Give the database $1 the next number.
WITH m AS (UPDATE tickwise.shard_map SET version = version + 1, next_number = next_number + 1 RETURNING next_number - 1 AS number)
INSERT INTO tickwise.shards (added, number, state, cluster_id) SELECT tickwise.now(), number, 'open', $1 FROM m RETURNING number, state

-- name: shard_set_state
-- Open or drain the shard $1: $2 open, draining. Whether it is there.
WITH s AS (UPDATE tickwise.shards SET state = $2 WHERE number = $1 RETURNING number),
m AS (UPDATE tickwise.shard_map SET version = version + 1 WHERE EXISTS (SELECT FROM s))
SELECT count(*) > 0 FROM s

-- name: shard_uses
-- A namespace that is in the shard $1 or on its way to it, and how many there are. No row: none.
SELECT namespace, count(*) OVER () AS uses FROM tickwise.shard_places WHERE shard = $1 OR moving_to = $1 ORDER BY namespace LIMIT 1

-- name: shard_remove
-- Forget the shard $1.
WITH s AS (DELETE FROM tickwise.shards WHERE number = $1 RETURNING number)
UPDATE tickwise.shard_map SET version = version + 1 WHERE EXISTS (SELECT FROM s)

-- name: shard_is_there
-- Check whether there is a shard $1.
SELECT count(*) > 0 FROM tickwise.shards WHERE number = $1

-- name: shard_place_of
-- The place of the namespace $1.
SELECT shard, moving_to FROM tickwise.shard_places WHERE namespace = $1

-- name: shard_place
-- Place the namespace $1, which has no place yet, in the shard $2.
WITH m AS (UPDATE tickwise.shard_map SET version = version + 1)
INSERT INTO tickwise.shard_places (namespace, shard) VALUES ($1, $2)

-- name: shard_move_begin
-- The namespace $1 is on its way to the shard $2.
WITH p AS (UPDATE tickwise.shard_places SET moving_to = $2 WHERE namespace = $1 AND moving_to IS DISTINCT FROM $2 RETURNING 1)
UPDATE tickwise.shard_map SET version = version + 1 WHERE EXISTS (SELECT FROM p)

-- name: shard_move_end
-- End the move of the namespace $1: at its goal ($2), or where it was.
WITH p AS (
  UPDATE tickwise.shard_places SET shard = CASE WHEN $2::boolean THEN moving_to ELSE shard END, moving_to = NULL
  WHERE namespace = $1 AND moving_to IS NOT NULL RETURNING 1)
UPDATE tickwise.shard_map SET version = version + 1 WHERE EXISTS (SELECT FROM p)

-- name: shard_membership
-- This database: its identity, that of the first database of its installation (NULL: it stands alone), the shards that its own map knows,
-- and whether it holds anything that a Tickwise of its own would hold.
SELECT c.cluster_id::text AS cluster_id, m.first_cluster, (SELECT count(*) FROM tickwise.shards) AS shards,
       EXISTS (SELECT FROM tickwise.jobs) OR EXISTS (SELECT FROM tickwise.history) OR EXISTS (SELECT FROM tickwise.keys)
         OR EXISTS (SELECT FROM tickwise.users) AS has_content
FROM tickwise.cluster c LEFT JOIN tickwise.shard_membership m ON true

-- name: shard_first_cluster
-- The identity of the first database of this one's installation. No row: it stands alone. Each database role may ask.
SELECT first_cluster FROM tickwise.shard_membership

-- name: shard_join
-- This database is shard $2 of the installation whose first database is $1.
INSERT INTO tickwise.shard_membership (joined, number, first_cluster) VALUES (tickwise.now(), $2, $1) ON CONFLICT DO NOTHING

-- name: shard_leave
-- This database stands alone.
DELETE FROM tickwise.shard_membership
