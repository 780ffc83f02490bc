-- Keep an answer under a client's key, unless one that has not expired is there. A request of the same key that is under way
-- elsewhere is waited for. One row if it was kept.
INSERT INTO tickwise.receipts AS r (expires, status, principal, route, key, body_digest, body)
VALUES (tickwise.now() + $7::float8 * interval '1 second', $5, $1, $2, $3, $4, $6)
ON CONFLICT (principal, route, key) DO UPDATE
SET expires = excluded.expires, status = excluded.status, body_digest = excluded.body_digest, body = excluded.body
WHERE r.expires <= tickwise.now()
RETURNING 1
