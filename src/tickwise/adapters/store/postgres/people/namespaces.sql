-- name: namespace_add
-- Keep a namespace. $1 name, $2 display name, $3 by whom. Returns a row if there was none of this name.
INSERT INTO tickwise.namespaces (created, version, name, display_name, state, created_by)
VALUES (tickwise.now(), 1, $1, $2, 'active', $3) ON CONFLICT (name) DO NOTHING RETURNING true

-- name: namespace_late
-- Delete what came for a former namespace of the name $1 after it had gone: operations that ended, answers to requests.
WITH former AS MATERIALIZED (SELECT name FROM tickwise.namespaces_removed WHERE name = $1),
o AS (DELETE FROM tickwise.operations WHERE namespace = (SELECT name FROM former))
DELETE FROM tickwise.receipts WHERE starts_with(principal, (SELECT name FROM former) || '/')

-- name: namespaces_page
-- Namespaces by name. $1 the one of this name (NULL: any), $2 after this name (NULL: from the first), $3 how many.
SELECT name, display_name, CASE WHEN removing IS NULL THEN state ELSE 'removing' END AS state, created_by, version,
       date_part('epoch', created) AS created_at, quotas
FROM tickwise.namespaces WHERE ($1::text IS NULL OR name = $1) AND ($2::text IS NULL OR name COLLATE "C" > $2)
ORDER BY name COLLATE "C" LIMIT $3

-- name: namespace_change
-- Replace what a namespace is. $1 name, $2 version, $3 display name, $4 state, $5 quotas (NULL: none). One that is being removed stays
-- as it is.
UPDATE tickwise.namespaces SET version = version + 1, display_name = $3, state = $4, quotas = $5
WHERE name = $1 AND version = $2 AND removing IS NULL RETURNING true

-- name: namespaces_removed
-- The times at which the last namespaces of the names $1 went.
SELECT name, date_part('epoch', removed) FROM tickwise.namespaces_removed WHERE name = ANY($1::text[])
