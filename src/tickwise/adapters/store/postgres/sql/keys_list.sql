-- Keys of a namespace, the newest id first. $1 namespace, $2 below this id, $3 how many.
SELECT key_id, name, namespace, scopes, origin, prefix, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', expires) AS expires_at, date_part('epoch', used) AS last_used_at, date_part('epoch', revoked) AS revoked_at
FROM tickwise.keys WHERE namespace = $1 AND ($2::uuid IS NULL OR key_id < $2) ORDER BY key_id DESC LIMIT $3
