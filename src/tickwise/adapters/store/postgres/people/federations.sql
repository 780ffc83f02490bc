-- name: federation_add
-- Keep a federation. $1 its key, $2 issuer, $3 audience, $4 conditions, $5 key set (NULL: by discovery), $6 seconds of an access token, $7 true: each token once.
INSERT INTO tickwise.federations (created, key_id, issuer, audience, conditions, key_set, lifetime_seconds, single_use)
VALUES (tickwise.now(), $1, $2, $3, $4::text::jsonb, $5, $6, $7) ON CONFLICT DO NOTHING

-- name: federations_of_issuer
-- The federations of the issuer $1 whose keys are good, the oldest first.
SELECT f.key_id, f.issuer, f.audience, f.conditions::text, f.key_set, f.lifetime_seconds, f.single_use
FROM tickwise.federations f JOIN tickwise.keys k USING (key_id)
WHERE f.issuer = $1 AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > tickwise.now()) ORDER BY f.key_id

-- name: federation_get
-- The federation of the key $1.
SELECT key_id, issuer, audience, conditions::text, key_set, lifetime_seconds, single_use FROM tickwise.federations WHERE key_id = $1

-- name: federations_list
-- Federations whose keys have a namespace as their home or work there by its name, the newest id first. $1 namespace (NULL: all), $2 below this id, $3 how many.
SELECT f.key_id, f.issuer, f.audience, f.conditions::text, f.key_set, f.lifetime_seconds, f.single_use
FROM tickwise.federations f JOIN tickwise.keys k USING (key_id)
WHERE k.revoked IS NULL AND ($1::text IS NULL OR k.namespace = $1 OR k.namespaces @> ARRAY[$1::text]) AND ($2::uuid IS NULL OR f.key_id < $2)
ORDER BY f.key_id DESC LIMIT $3

-- name: used_assertions_forget
-- Forget tokens whose time is over.
DELETE FROM tickwise.used_assertions WHERE expires <= tickwise.now()

-- name: used_assertion_keep
-- Remember for $3 seconds that the exchange $2 has taken a token. $1 digest.
INSERT INTO tickwise.used_assertions (expires, exchange_id, digest)
VALUES (tickwise.now() + $3::float8 * interval '1 second', $2, $1) ON CONFLICT DO NOTHING

-- name: used_assertion_by
-- The exchange that has taken the token with the digest $1.
SELECT exchange_id FROM tickwise.used_assertions WHERE digest = $1
