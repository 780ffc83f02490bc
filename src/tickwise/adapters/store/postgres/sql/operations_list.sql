-- Operations, newest first by id. $1 namespace, $2 page: ids below it, $3 limit, $4 kinds; NULL: all.
SELECT operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems
FROM tickwise.operations WHERE namespace = $1 AND ($2::uuid IS NULL OR operation_id < $2)
  AND ($4::text[] IS NULL OR kind = ANY($4))
ORDER BY operation_id DESC LIMIT $3
