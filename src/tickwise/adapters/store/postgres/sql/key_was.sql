-- Whether the key with the digest $1 was revoked.
SELECT EXISTS (SELECT FROM tickwise.keys WHERE digest = '\x00'::bytea || $1::bytea)
