-- name: identity_keys_lock
-- Let one transaction at a time add a key.
SELECT pg_advisory_xact_lock(8388354, hashtext('identity_keys'))

-- name: identity_keys_find
-- All keys, by algorithm, the oldest first.
SELECT key_id, algorithm, public, sealed, date_part('epoch', created_at) AS created_at, date_part('epoch', signs_at) AS signs_at
FROM tickwise.identity_keys ORDER BY algorithm COLLATE "C", identity_keys.signs_at, key_id

-- name: identity_key_newest
-- The newest key of the algorithm $1.
SELECT key_id FROM tickwise.identity_keys WHERE algorithm = $1 ORDER BY signs_at DESC, key_id DESC LIMIT 1

-- name: identity_key_add
-- Add a key that signs in $5 seconds. $1 its name, $2 algorithm, $3 public half, $4 sealed private half.
INSERT INTO tickwise.identity_keys (created_at, signs_at, key_id, algorithm, public, sealed)
VALUES (tickwise.now(), tickwise.now() + $5::float8 * interval '1 second', $1, $2, $3, $4)

-- name: identity_keys_forget
-- Delete the keys of the algorithm $1, beside $2, that have not signed for $3 seconds; with 0, all of them.
DELETE FROM tickwise.identity_keys k WHERE algorithm = $1 AND key_id <> $2 AND ($3::float8 = 0 OR EXISTS (
  SELECT FROM tickwise.identity_keys n WHERE n.algorithm = $1 AND n.signs_at > k.signs_at
    AND n.signs_at < tickwise.now() - $3::float8 * interval '1 second'))
