-- The namespace $1 is in the shard $2 from the beginning. Before any role has started: nothing is moved.
WITH placed AS (
  INSERT INTO tickwise.shard_places (namespace, shard) VALUES ($1, $2) ON CONFLICT (namespace) DO UPDATE SET shard = $2
)
UPDATE tickwise.shard_map SET version = version + 1;
