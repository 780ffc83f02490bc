-- name: server_version
-- The server's version as one number.
SELECT current_setting('server_version_num')::int

-- name: now
-- The store's clock.
SELECT date_part('epoch', tickwise.now())

-- name: cluster_id
-- The name of this store.
SELECT cluster_id::text FROM tickwise.cluster
