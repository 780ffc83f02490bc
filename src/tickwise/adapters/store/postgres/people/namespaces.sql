-- name: namespace_add
-- Keep a namespace. $1 name, $2 display name, $3 by whom.
INSERT INTO tickwise.namespaces (created, version, name, display_name, state, created_by)
VALUES (tickwise.now(), 1, $1, $2, 'active', $3) ON CONFLICT (name) DO NOTHING

-- name: namespaces_page
-- Namespaces by name. $1 the one of this name (NULL: any), $2 after this name (NULL: from the first), $3 how many.
SELECT name, display_name, state, created_by, version, date_part('epoch', created) AS created_at, quotas
FROM tickwise.namespaces WHERE ($1::text IS NULL OR name = $1) AND ($2::text IS NULL OR name COLLATE "C" > $2)
ORDER BY name COLLATE "C" LIMIT $3

-- name: namespace_change
-- Replace what a namespace is. $1 name, $2 version, $3 display name, $4 state, $5 quotas (NULL: none).
UPDATE tickwise.namespaces SET version = version + 1, display_name = $3, state = $4, quotas = $5
WHERE name = $1 AND version = $2 RETURNING true

-- name: namespace_remove
-- Remove a closing namespace that holds nothing. $1 name. Returns whether it was removed; no row: it is not there.
WITH n AS MATERIALIZED (SELECT state FROM tickwise.namespaces WHERE name = $1 FOR UPDATE),
d AS (
  DELETE FROM tickwise.namespaces WHERE name = $1 AND (SELECT state FROM n) = 'closing'
    AND NOT EXISTS (SELECT FROM tickwise.keys WHERE namespace = $1 AND revoked IS NULL)
    AND NOT EXISTS (SELECT FROM tickwise.members WHERE namespace = $1)
    AND NOT EXISTS (SELECT FROM tickwise.jobs WHERE namespace = $1 AND namespace <> 'default')
  RETURNING true
),
q AS (
  DELETE FROM tickwise.quota_use WHERE namespace = $1 AND EXISTS (SELECT FROM d)
)
SELECT EXISTS (SELECT FROM d) FROM n
