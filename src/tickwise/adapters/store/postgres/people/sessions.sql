-- name: session_begin
-- Keep a family. $1 family, $2 digest, $3 person, $4 generation, $5 scope, $6 namespace, $7 address, $8 seconds unused, $9 most seconds.
INSERT INTO tickwise.sessions (created, rotated, expires, ends, generation, family, user_id, digest, scope, namespace, address)
SELECT n.at, n.at, n.at + $8::float8 * interval '1 second', n.at + $9::float8 * interval '1 second', $4, $1, $3, $2, $5, $6, $7
FROM (SELECT tickwise.now() AS at) n ON CONFLICT (family) DO NOTHING

-- name: sessions_forget
-- Forget families of a person that are over, and those beyond the $2 that were used last. $1 person.
DELETE FROM tickwise.sessions s WHERE user_id = $1 AND (
  least(expires, ends) < tickwise.now() OR family NOT IN (
    SELECT family FROM tickwise.sessions WHERE user_id = $1 ORDER BY rotated DESC, family DESC LIMIT $2))

-- name: session_rotate
-- The refresh token $1 is used, and $2 takes its place. Returns the family; no row: the token does not work now.
WITH s AS (
  UPDATE tickwise.sessions s SET digest = $2, rotated = tickwise.now(), expires = tickwise.now() + (s.expires - s.rotated)
  FROM tickwise.users u
  WHERE s.digest = $1 AND s.revoked IS NULL AND least(s.expires, s.ends) > tickwise.now()
    AND u.user_id = s.user_id AND u.active AND u.generation = s.generation
  RETURNING s.*
), t AS (
  INSERT INTO tickwise.session_tokens (digest, family) SELECT $1, family FROM s
)
SELECT family, user_id, generation, scope, namespace, address, date_part('epoch', expires - rotated) AS seconds,
       date_part('epoch', ends - created) AS most_seconds FROM s

-- name: session_used
-- The family of a refresh token that was rotated, if it was not for $2. $1 digest, $2 the digest of the one that came after it.
SELECT s.family, s.user_id, s.generation, s.scope, s.namespace, s.address, s.digest = $2 AND s.revoked IS NULL AS same,
       date_part('epoch', s.expires - s.rotated) AS seconds, date_part('epoch', s.ends - s.created) AS most_seconds
FROM tickwise.session_tokens t JOIN tickwise.sessions s USING (family) WHERE t.digest = $1

-- name: sessions_revoke
-- End families. $1 the digest of a refresh token, also of one that was rotated (NULL: none), $2 person (NULL: none), $3 family (NULL: none).
UPDATE tickwise.sessions SET revoked = coalesce(revoked, tickwise.now())
WHERE digest = $1 OR user_id = $2 OR family = $3
   OR family = (SELECT t.family FROM tickwise.session_tokens t WHERE t.digest = $1)
RETURNING family

-- name: session_is_good
-- Check that a family was not revoked, and has not ended. $1 family.
SELECT EXISTS (SELECT FROM tickwise.sessions WHERE family = $1 AND revoked IS NULL AND ends > tickwise.now())

-- name: token_key_publish
-- Keep a public key. $1 its name, $2 the key.
INSERT INTO tickwise.token_keys (created, key_id, public) VALUES (tickwise.now(), $1, $2) ON CONFLICT DO NOTHING

-- name: token_keys
-- Public keys that tokens may still be signed with. $1 so many seconds after a key was retired.
SELECT key_id, public, date_part('epoch', created) AS created_at, date_part('epoch', retired) AS retired_at
FROM tickwise.token_keys WHERE retired IS NULL OR retired > tickwise.now() - $1 * interval '1 second' ORDER BY created, key_id

-- name: token_key_retire
-- From now on nothing is signed with the key $1.
UPDATE tickwise.token_keys SET retired = coalesce(retired, tickwise.now()) WHERE key_id = $1
