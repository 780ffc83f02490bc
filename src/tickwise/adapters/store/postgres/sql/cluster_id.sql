-- The name of this store.
SELECT cluster_id::text FROM tickwise.cluster
