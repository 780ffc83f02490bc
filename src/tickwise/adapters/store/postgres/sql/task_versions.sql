-- The versions of a task, newest first. $1 namespace, $2 task, $3 page: versions below it, $4 limit.
SELECT namespace, task_id, version, name, task, digest, created_by, date_part('epoch', created) AS created_at
FROM tickwise.tasks WHERE namespace = $1 AND task_id = $2 AND ($3::int IS NULL OR version < $3)
ORDER BY version DESC LIMIT $4
