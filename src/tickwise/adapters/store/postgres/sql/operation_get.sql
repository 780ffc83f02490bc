-- One operation. $1 namespace, $2 id.
SELECT operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems
FROM tickwise.operations WHERE operation_id = $2 AND namespace = $1
