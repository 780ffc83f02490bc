-- name: saved_views_lock
-- Let one transaction at a time count and save the views of an owner. $1 namespace and owner as one text.
SELECT pg_advisory_xact_lock(8388354, hashtext($1))

-- name: saved_views_others
-- The number of views of an owner but the one of this list and name. $1 namespace, $2 owner, $3 list, $4 name.
SELECT count(*) FROM tickwise.saved_views WHERE namespace = $1 AND owner = $2 AND (path, name) <> ($3, $4)

-- name: saved_view_put
-- Save a view, in place of the one of this list and name. $1 namespace, $2 owner, $3 list, $4 name, $5 filters, $6 by whom.
INSERT INTO tickwise.saved_views (saved, namespace, owner, path, name, query, saved_by) VALUES (tickwise.now(), $1, $2, $3, $4, $5, $6)
ON CONFLICT (namespace, owner, path, name) DO UPDATE SET saved = excluded.saved, query = excluded.query, saved_by = excluded.saved_by

-- name: saved_views_find
-- The views of some owners in a namespace. $1 namespace, $2 owners.
SELECT namespace, owner, path, name, query, saved_by FROM tickwise.saved_views WHERE namespace = $1 AND owner = ANY($2::text[])
ORDER BY path COLLATE "C", name COLLATE "C", owner COLLATE "C"

-- name: saved_view_remove
-- Delete a view; whether it was there. $1 namespace, $2 owner, $3 list, $4 name.
DELETE FROM tickwise.saved_views WHERE namespace = $1 AND owner = $2 AND path = $3 AND name = $4 RETURNING true
