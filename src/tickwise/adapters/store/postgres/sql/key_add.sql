-- Keep an API key, unless it is there. $1 id, $2 digest, $3 name, $4 namespace, $5 scopes, $6 label.
INSERT INTO tickwise.keys (created, key_id, digest, name, namespace, scopes, label)
VALUES (tickwise.now(), $1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING true
