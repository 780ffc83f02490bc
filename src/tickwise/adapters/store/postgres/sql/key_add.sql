-- Keep an API key, unless its secret is or was there. $1 id, $2 digest, $3 name, $4 namespace, $5 scopes, $6 label (it says the
-- origin), $7 prefix, $8 created by, $9 expires. A revoked key has a zero byte before its digest.
INSERT INTO tickwise.keys (created, key_id, digest, name, namespace, scopes, label, prefix, created_by, expires)
SELECT tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8, to_timestamp($9::float8)
WHERE NOT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $2::bytea)
ON CONFLICT DO NOTHING
RETURNING true
