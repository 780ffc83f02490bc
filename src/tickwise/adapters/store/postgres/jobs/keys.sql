-- name: keys_room
-- Count the good keys that were made in a namespace on request; of those that are not good, forget the oldest but $2. $1 namespace.
WITH k AS MATERIALIZED (
  SELECT digest, (revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())) AS good,
         row_number() OVER (PARTITION BY (revoked IS NULL AND (expires IS NULL OR expires > tickwise.now()))
                            ORDER BY coalesce(revoked, expires) DESC NULLS FIRST, key_id DESC) AS number
  FROM tickwise.keys WHERE namespace = $1 AND origin = 'made'
), gone AS (
  DELETE FROM tickwise.keys WHERE digest IN (SELECT digest FROM k WHERE NOT good AND number > $2)
)
SELECT count(*) FROM k WHERE good

-- name: keys_lock
-- Keep other transactions from changing keys until this one ends; they can be read.
LOCK TABLE tickwise.keys IN SHARE ROW EXCLUSIVE MODE

-- name: keys_count
-- The number of keys.
SELECT count(*) FROM tickwise.keys

-- name: key_was
-- Check whether the key with the digest $1 was revoked.
SELECT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $1::bytea)

-- name: keys_replace
-- Revoke the keys of the setting but the one with the digest $1.
UPDATE tickwise.keys SET revoked = tickwise.now(), digest = '\x00'::bytea || digest
WHERE origin = 'setting' AND revoked IS NULL AND digest <> $1
RETURNING key_id

-- name: key_find
-- The good key with this digest, and for how many seconds it is good (NULL: it does not expire).
SELECT key_id, name, namespace, namespaces, scopes, origin, owner_id, date_part('epoch', expires) AS expires_at,
       date_part('epoch', expires - tickwise.now()) AS seconds_left
FROM tickwise.keys WHERE digest = $1 AND revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())

-- name: key_of_id
-- The good key with this id, and for how many seconds it is good (NULL: it does not expire).
SELECT key_id, name, namespace, namespaces, scopes, origin, owner_id, date_part('epoch', expires) AS expires_at,
       date_part('epoch', expires - tickwise.now()) AS seconds_left
FROM tickwise.keys WHERE key_id = $1 AND revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())

-- name: keys_list
-- Keys of a namespace, the newest id first. $1 namespace (NULL: all), $2 below this id, $3 how many.
SELECT key_id, name, namespace, namespaces, scopes, origin, prefix, created_by, owner_id,
       date_part('epoch', created) AS created_at, date_part('epoch', expires) AS expires_at,
       date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at
FROM tickwise.keys WHERE ($1::text IS NULL OR namespace = $1) AND ($2::uuid IS NULL OR key_id < $2) ORDER BY key_id DESC LIMIT $3

-- name: key_stands
-- Check that a key is not revoked yet, and lock it. $1 namespace (NULL: any), $2 id.
SELECT revoked IS NULL FROM tickwise.keys WHERE ($1::text IS NULL OR namespace = $1) AND key_id = $2 FOR UPDATE

-- name: keys_unused
-- Those of the keys $1 that were never used: ids, names and namespaces. Locked in one order.
SELECT key_id, name, namespace FROM tickwise.keys WHERE key_id = ANY($1::uuid[]) AND used IS NULL ORDER BY key_id FOR UPDATE

-- name: key_revoke
-- Revoke keys; also those that are revoked already. $1 namespace (NULL: any), $2 ids. The zero byte makes a digest that no secret has: so programs of
-- the release before, which do not know `revoked`, refuse the key too.
UPDATE tickwise.keys SET
  revoked = coalesce(revoked, tickwise.now()),
  digest = CASE WHEN revoked IS NULL THEN '\x00'::bytea || digest ELSE digest END
WHERE ($1::text IS NULL OR namespace = $1) AND key_id = ANY($2::uuid[])
RETURNING key_id, name, namespace, namespaces, scopes, origin, prefix, created_by, owner_id,
          date_part('epoch', created) AS created_at, date_part('epoch', expires) AS expires_at,
          date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at

-- name: keys_used
-- Note that the keys $1 were used $2 seconds ago; a later use that is noted stays.
UPDATE tickwise.keys k
SET used = greatest(k.used, tickwise.now() - u.age * interval '1 second')
FROM unnest($1::uuid[], $2::float8[]) AS u(key_id, age)
WHERE k.key_id = u.key_id

-- name: key_add
-- Keep an API key, unless its secret is or was there. $1 id, $2 digest, $3 name, $4 namespace, $5 scopes, $6 label (it says the
-- origin), $7 prefix, $8 created by, $9 expires, $10 namespaces (NULL: its own), $11 owner (NULL:
-- nobody). A revoked key has a zero byte before its digest.
INSERT INTO tickwise.keys (created, key_id, digest, name, namespace, scopes, label, prefix, created_by, expires, namespaces, owner_id)
SELECT tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8, to_timestamp($9::float8), $10::text[], $11::uuid
WHERE NOT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $2::bytea)
ON CONFLICT DO NOTHING
RETURNING true
