-- Revoke keys; also those that were. $1 namespace, $2 ids. The zero byte makes the digest one that no secret has: so programs of the
-- release before, which know nothing of `revoked`, refuse the key too.
UPDATE tickwise.keys SET
  revoked = coalesce(revoked, tickwise.now()),
  digest = CASE WHEN revoked IS NULL THEN '\x00'::bytea || digest ELSE digest END
WHERE namespace = $1 AND key_id = ANY($2::uuid[])
RETURNING key_id, name, namespace, scopes, origin, prefix, created_by, date_part('epoch', created) AS created_at,
          date_part('epoch', expires) AS expires_at, date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at
