-- name: namespaces_limited
-- The namespaces that have quotas: few.
SELECT name, quotas FROM tickwise.namespaces WHERE quotas IS NOT NULL
