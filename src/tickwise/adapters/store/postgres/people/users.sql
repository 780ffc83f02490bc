-- name: users_lock
-- Keep other transactions from changing people and roles until this one ends; they can be read. One change at a time, so that two
-- administrators cannot take each other's role away.
LOCK TABLE tickwise.users IN SHARE ROW EXCLUSIVE MODE

-- name: user_add
-- Keep a person. $1 id, $2 name, $3 its key, $4 e-mail, $5 its key, $6 hash, $7 by whom, $8 looks, $9 limit of the password.
INSERT INTO tickwise.users
  (created, version, generation, user_id, active, name, name_key, email, email_key, password, created_by, looks, password_limit)
VALUES (tickwise.now(), 1, 1, $1, true, $2, $3, $4, $5, $6, $7, $8, $9::jsonb)

-- name: users_look_alike
-- Check whether somebody but the person $1 has one of the looks $2.
SELECT EXISTS (SELECT FROM tickwise.users WHERE looks && $2::text[] AND user_id <> $1)

-- name: users_without_looks
-- People without looks. $1 how many.
SELECT user_id, name FROM tickwise.users WHERE looks IS NULL LIMIT $1

-- name: user_put_looks
-- Give the person $1 the looks $2, if there are none.
UPDATE tickwise.users SET looks = $2 WHERE user_id = $1 AND looks IS NULL

-- name: users_found
-- People with their roles. $1 ids (NULL: any), $2 the key of a name or e-mail (NULL: any).
SELECT u.user_id, u.name, u.email, u.password, u.active, u.generation, u.version, u.created_by,
       date_part('epoch', u.created) AS created_at, date_part('epoch', u.signed_in) AS signed_in_at,
       u.password_limit::text AS password_limit,
       m.namespaces, m.roles
FROM tickwise.users u CROSS JOIN LATERAL (
  SELECT array_agg(namespace ORDER BY namespace COLLATE "C", role COLLATE "C") AS namespaces,
         array_agg(role ORDER BY namespace COLLATE "C", role COLLATE "C") AS roles
  FROM tickwise.members WHERE user_id = u.user_id
) m
WHERE ($1::uuid[] IS NULL OR u.user_id = ANY($1)) AND ($2::text IS NULL OR u.name_key = $2 OR u.email_key = $2)

-- name: users_page
-- The ids of people, the newest first. $1 namespace of which they are members (NULL: any), $2 below this id, $3 how many.
SELECT u.user_id FROM tickwise.users u
WHERE ($2::uuid IS NULL OR u.user_id < $2)
  AND ($1::text IS NULL OR EXISTS (SELECT FROM tickwise.members m WHERE m.user_id = u.user_id AND m.namespace = $1))
ORDER BY u.user_id DESC LIMIT $3

-- name: user_change
-- Replace what a person is. $1 id, $2 version, $3 name, $4 its key, $5 e-mail, $6 its key, $7 active, $8 hash (NULL: as it is),
-- $9 whether tokens of before are refused, $10 looks.
UPDATE tickwise.users SET version = version + 1, name = $3, name_key = $4, email = $5, email_key = $6, active = $7,
  password = coalesce($8, password), generation = generation + $9::boolean::int, looks = $10
WHERE user_id = $1 AND version = $2
RETURNING true

-- name: members_replace
-- The roles of a person. $1 id, $2 namespaces, $3 roles: the name, for one with labels also a space and the labels as JSON.
WITH gone AS (
  DELETE FROM tickwise.members WHERE user_id = $1 AND (namespace, role) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
)
INSERT INTO tickwise.members (user_id, namespace, role)
SELECT $1, m.namespace, m.role FROM unnest($2::text[], $3::text[]) AS m(namespace, role) ON CONFLICT DO NOTHING

-- name: administrators_count
-- People who may do everything in the installation.
SELECT count(DISTINCT m.user_id) FROM tickwise.members m JOIN tickwise.users u USING (user_id)
WHERE m.namespace = '*' AND m.role = 'admin' AND u.active

-- name: user_signed_in
-- Note that a person signed in. $1 id.
UPDATE tickwise.users SET signed_in = tickwise.now() WHERE user_id = $1

-- name: link_was
-- Check whether there is a link with the digest $1.
SELECT EXISTS (SELECT FROM tickwise.user_links WHERE digest = $1)

-- name: link_add
-- Keep a link in place of those of its kind for its person. $1 digest, $2 kind, $3 person, $4 seconds, $5 by whom, $6 the person's
-- generation, $7 limit of the password. No row: the person has another generation by now.
WITH u AS (
  SELECT user_id FROM tickwise.users WHERE user_id = $3 AND generation = $6
), before AS (
  DELETE FROM tickwise.user_links l USING u WHERE l.user_id = u.user_id AND l.kind = $2
)
INSERT INTO tickwise.user_links (expires, user_id, digest, kind, created_by, password_limit)
SELECT tickwise.now() + $4 * interval '1 second', u.user_id, $1, $2, $5, $7::jsonb FROM u RETURNING true

-- name: links_end
-- Forget the links of people that were not used. $1 their ids.
DELETE FROM tickwise.user_links WHERE user_id = ANY($1::uuid[]) AND used IS NULL

-- name: link_holder
-- The person of a link that works. $1 digest.
SELECT user_id FROM tickwise.user_links WHERE digest = $1 AND used IS NULL AND expires > tickwise.now()

-- name: link_use
-- Use a link: its person has the hash $2 from now on, and tokens of before are refused. $1 digest. Returns the person.
WITH l AS (
  UPDATE tickwise.user_links SET used = tickwise.now()
  WHERE digest = $1 AND used IS NULL AND expires > tickwise.now() RETURNING user_id, password_limit
)
UPDATE tickwise.users u SET password = $2, password_limit = l.password_limit, generation = generation + 1, version = version + 1
FROM l WHERE u.user_id = l.user_id AND u.active RETURNING u.user_id

-- name: custom_roles
-- Custom roles. $1 namespace (NULL: any).
SELECT namespace, name, permissions, labels::text FROM tickwise.custom_roles
WHERE $1::text IS NULL OR namespace IN ($1, '*') ORDER BY namespace, name

-- name: custom_role_put
-- Keep a role, or replace it. $1 namespace, $2 name, $3 permissions, $4 labels.
INSERT INTO tickwise.custom_roles (namespace, name, permissions, labels) VALUES ($1, $2, $3, $4::jsonb)
ON CONFLICT (namespace, name) DO UPDATE SET permissions = excluded.permissions, labels = excluded.labels

-- name: custom_role_members
-- Refuse tokens of before of all who have a role. $1 namespace, $2 name. Returns their ids.
UPDATE tickwise.users SET generation = generation + 1
WHERE user_id IN (SELECT user_id FROM tickwise.members WHERE split_part(role, ' ', 1) = $2 AND ($1 = '*' OR namespace = $1)) RETURNING user_id

-- name: custom_role_drop
-- Remove a role that nobody has. $1 namespace, $2 name. Returns whether it was there; no row: somebody has it.
WITH u AS MATERIALIZED (
  SELECT EXISTS (SELECT FROM tickwise.members WHERE split_part(role, ' ', 1) = $2 AND ($1 = '*' OR namespace = $1)) AS used
), d AS (
  DELETE FROM tickwise.custom_roles WHERE namespace = $1 AND name = $2 AND NOT (SELECT used FROM u) RETURNING true
)
SELECT EXISTS (SELECT FROM d) FROM u WHERE NOT used
