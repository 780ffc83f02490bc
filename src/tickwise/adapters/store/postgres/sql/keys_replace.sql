-- Revoke the keys of the setting but the one with the digest $1.
UPDATE tickwise.keys SET revoked = tickwise.now(), digest = '\x00'::bytea || digest
WHERE origin = 'setting' AND revoked IS NULL AND digest <> $1
RETURNING key_id
