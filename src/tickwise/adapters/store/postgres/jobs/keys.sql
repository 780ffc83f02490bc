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
-- Check whether the key with the digest $1 was revoked, or is an earlier secret of a key that has another one by now.
SELECT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $1::bytea)
    OR EXISTS (SELECT FROM tickwise.key_secrets WHERE digest = $1::bytea)

-- name: keys_replace
-- Revoke the keys of the setting but the one with the digest $1.
UPDATE tickwise.keys SET revoked = tickwise.now(), digest = '\x00'::bytea || digest
WHERE origin = 'setting' AND revoked IS NULL AND digest <> $1
RETURNING key_id, name, namespace

-- name: key_find
-- The good key with this digest, and for how many seconds it is good (NULL: it does not expire). An earlier secret of a key is good until
-- its overlap ends, and what it makes is good for no longer: that is its expiry.
WITH k AS (
  SELECT k.key_id, k.name, k.namespace, k.namespaces, coalesce(k.labelled_scopes, k.scopes) AS scopes, k.labels::text, k.origin, k.owner_id, k.rotations AS secret, k.expires
  FROM tickwise.keys k WHERE k.digest = $1 AND k.revoked IS NULL
  UNION ALL
  SELECT k.key_id, k.name, k.namespace, k.namespaces, coalesce(k.labelled_scopes, k.scopes), k.labels::text, k.origin, k.owner_id, s.number, least(k.expires, s.until)
  FROM tickwise.key_secrets s JOIN tickwise.keys k USING (key_id) WHERE s.digest = $1 AND k.revoked IS NULL
)
SELECT key_id, name, namespace, namespaces, scopes, labels, origin, owner_id, secret, date_part('epoch', expires) AS expires_at,
       date_part('epoch', expires - tickwise.now()) AS seconds_left
FROM k WHERE expires IS NULL OR expires > tickwise.now()

-- name: key_of_id
-- The good key with the id $1, and for how many seconds it is good (NULL: it does not expire). $2 the number of the secret that was shown
-- and must be good (NULL: any). With an earlier one it is good until the overlap ends, as in `key_find`.
WITH k AS (
  SELECT k.*, coalesce(s.number, k.rotations) AS secret, least(k.expires, s.until) AS until
  FROM tickwise.keys k
  LEFT JOIN tickwise.key_secrets s ON s.key_id = k.key_id AND s.number = $2::int AND s.number <> k.rotations AND s.until > tickwise.now()
  WHERE k.key_id = $1 AND k.revoked IS NULL AND ($2::int IS NULL OR $2 = k.rotations OR s.number IS NOT NULL)
)
SELECT key_id, name, namespace, namespaces, coalesce(labelled_scopes, scopes) AS scopes, labels::text, origin, owner_id, secret,
       date_part('epoch', until) AS expires_at, date_part('epoch', until - tickwise.now()) AS seconds_left
FROM k WHERE until IS NULL OR until > tickwise.now()

-- name: key_get
-- A key as it is listed. $1 namespace (NULL: any), $2 id.
SELECT key_id, name, namespace, namespaces, coalesce(labelled_scopes, scopes) AS scopes, labels::text, origin, prefix, created_by, owner_id, rotations,
       date_part('epoch', created) AS created_at, date_part('epoch', expires) AS expires_at,
       date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at, date_part('epoch', rotated) AS rotated_at,
       (SELECT date_part('epoch', max(s.until)) FROM tickwise.key_secrets s WHERE s.key_id = k.key_id AND s.until > tickwise.now()) AS earlier_secret_until
FROM tickwise.keys k WHERE ($1::text IS NULL OR namespace = $1) AND key_id = $2

-- name: key_to_rotate
-- The digest of a key, which nobody changes until this transaction ends, and the time. $1 namespace (NULL: any), $2 id.
SELECT digest, date_part('epoch', tickwise.now()) AS now
FROM tickwise.keys WHERE ($1::text IS NULL OR namespace = $1) AND key_id = $2 FOR UPDATE

-- name: key_secrets_end
-- End the earlier secrets of the key $1.
UPDATE tickwise.key_secrets SET until = tickwise.now() WHERE key_id = $1 AND until > tickwise.now()

-- name: key_secret_keep
-- The present secret of the key $1 becomes an earlier one, which works for $2 more seconds.
INSERT INTO tickwise.key_secrets (until, number, key_id, digest)
SELECT tickwise.now() + $2::float8 * interval '1 second', rotations, key_id, digest FROM tickwise.keys WHERE key_id = $1

-- name: key_rotate
-- The key $1 has the secret of the digest $2 from now on, which begins with $3.
UPDATE tickwise.keys SET digest = $2, prefix = $3, rotations = rotations + 1, rotated = tickwise.now() WHERE key_id = $1

-- name: keys_list
-- Keys that have a namespace as their home or work there by its name, the newest id first. $1 namespace (NULL: all), $2 below this id, $3 how many.
SELECT key_id, name, namespace, namespaces, coalesce(labelled_scopes, scopes) AS scopes, labels::text, origin, prefix, created_by, owner_id, rotations,
       date_part('epoch', created) AS created_at, date_part('epoch', expires) AS expires_at,
       date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at, date_part('epoch', rotated) AS rotated_at,
       (SELECT date_part('epoch', max(s.until)) FROM tickwise.key_secrets s WHERE s.key_id = k.key_id AND s.until > tickwise.now()) AS earlier_secret_until
FROM tickwise.keys k WHERE ($1::text IS NULL OR namespace = $1 OR namespaces @> ARRAY[$1::text]) AND ($2::uuid IS NULL OR key_id < $2) ORDER BY key_id DESC LIMIT $3

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
RETURNING key_id

-- name: key_leave
-- The key $2 works in the namespace $1 no more, if it works there by its name and elsewhere, too; another one becomes its home if this was it.
UPDATE tickwise.keys SET
  namespaces = array_remove(namespaces, $1::text),
  namespace = CASE WHEN namespace = $1 THEN (SELECT min(place COLLATE "C") FROM unnest(array_remove(namespaces, $1::text)) AS place) ELSE namespace END
WHERE key_id = $2 AND namespaces @> ARRAY[$1::text] AND cardinality(namespaces) > 1 AND revoked IS NULL
RETURNING true

-- name: keys_used
-- Note that the keys $1 were used $2 seconds ago; a later use that is noted stays.
UPDATE tickwise.keys k
SET used = greatest(k.used, tickwise.now() - u.age * interval '1 second')
FROM unnest($1::uuid[], $2::float8[]) AS u(key_id, age)
WHERE k.key_id = u.key_id

-- name: key_add
-- Keep an API key, unless its secret is or was there, also as an earlier secret of a key. $1 id, $2 digest, $3 name, $4 namespace, $5 scopes, $6 label (it says the
-- origin), $7 prefix, $8 created by, $9 expires, $10 namespaces (NULL: its own), $11 owner (NULL:
-- nobody), $12 labels (NULL: any), $13 scopes for jobs with these labels; $5 is empty then. A revoked key has a zero byte before its digest.
INSERT INTO tickwise.keys (created, key_id, digest, name, namespace, scopes, label, prefix, created_by, expires, namespaces, owner_id,
                           labels, labelled_scopes)
SELECT tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8, to_timestamp($9::float8), $10::text[], $11::uuid, $12::jsonb, $13::text[]
WHERE NOT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $2::bytea)
  AND NOT EXISTS (SELECT FROM tickwise.key_secrets WHERE digest = $2::bytea)
ON CONFLICT DO NOTHING
RETURNING true
