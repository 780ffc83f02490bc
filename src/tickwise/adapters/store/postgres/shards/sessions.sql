-- name: mover_lock
-- Let one process at a time move namespaces; until its session ends. Whether it is this one.
SELECT pg_try_advisory_lock(8388356, 1)
