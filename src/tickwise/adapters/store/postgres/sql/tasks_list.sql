-- The newest version of each task, by id. $1 namespace, $2 page: ids after it, $3 limit.
SELECT DISTINCT ON (task_id) namespace, task_id, version, name, task, digest, created_by,
       date_part('epoch', created) AS created_at
FROM tickwise.tasks WHERE namespace = $1 AND ($2::text IS NULL OR task_id > $2)
ORDER BY task_id, version DESC LIMIT $3
