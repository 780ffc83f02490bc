-- name: namespaces_limited
-- The namespaces that have quotas: few.
SELECT name, quotas FROM tickwise.namespaces WHERE quotas IS NOT NULL

-- name: namespaces_runs_limited
-- The namespaces with a quota of runs at once, and that quota.
SELECT namespace, most FROM tickwise.run_quotas

-- name: namespaces_sandboxed
-- The namespaces whose python and shell tasks must be in a sandbox or in a container, and the least of it.
SELECT namespace, least FROM tickwise.sandboxed_namespaces
