-- The good key with this digest, and for how many seconds it is good (NULL: it does not expire).
SELECT key_id, name, namespace, scopes, date_part('epoch', expires) AS expires_at,
       date_part('epoch', expires - tickwise.now()) AS seconds_left
FROM tickwise.keys WHERE digest = $1 AND revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())
