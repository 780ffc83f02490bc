-- An operation goes on no more, unless it has ended. $1 namespace, $2 id.
UPDATE tickwise.operations
SET status = CASE status WHEN 'running' THEN 'cancelled' ELSE status END, ended = coalesce(ended, tickwise.now()),
    updated = CASE status WHEN 'running' THEN tickwise.now() ELSE updated END
WHERE operation_id = $2 AND namespace = $1
RETURNING operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems
