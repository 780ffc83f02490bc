-- name: task_lock
-- Lock the versions of one task, so that they are numbered one after the other. $1 namespace, $2 task.
SELECT pg_advisory_xact_lock(hashtextextended($2::text, hashtextextended($1::text, 0)))

-- name: task_get
-- One version of a task, or the newest. $1 namespace, $2 task, $3 version or NULL.
SELECT namespace, task_id, version, name, task, digest, created_by, date_part('epoch', created) AS created_at
FROM tickwise.tasks WHERE namespace = $1 AND task_id = $2 AND ($3::int IS NULL OR version = $3)
ORDER BY version DESC LIMIT 1

-- name: task_put
-- Store a new version of a task, unless its newest has the same content. $1 namespace, $2 task, $3 name, $4 content, $5 digest,
-- $6 by whom.
INSERT INTO tickwise.tasks (created, version, namespace, task_id, name, task, digest, created_by)
SELECT tickwise.now(), coalesce(n.version, 0) + 1, $1, $2, $3, $4, $5, $6
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT version, digest FROM tickwise.tasks WHERE namespace = $1 AND task_id = $2 ORDER BY version DESC LIMIT 1) n ON true
WHERE n.digest IS DISTINCT FROM $5

-- name: task_versions
-- The versions of a task, newest first. $1 namespace, $2 task, $3 page: versions below it, $4 limit.
SELECT namespace, task_id, version, name, task, digest, created_by, date_part('epoch', created) AS created_at,
       octet_length(task) AS bytes
FROM tickwise.tasks WHERE namespace = $1 AND task_id = $2 AND ($3::int IS NULL OR version < $3)
ORDER BY version DESC LIMIT $4

-- name: tasks_list
-- The newest version of each task, by id. $1 namespace, $2 page: ids after it, $3 limit.
SELECT DISTINCT ON (task_id) namespace, task_id, version, name, task, digest, created_by,
       date_part('epoch', created) AS created_at, octet_length(task) AS bytes
FROM tickwise.tasks WHERE namespace = $1 AND ($2::text IS NULL OR task_id > $2)
ORDER BY task_id, version DESC LIMIT $3

-- name: scripts_stored
-- The stored scripts by namespace. The whole text is matched, since no JSON function accepts all that it may hold, and deeper values of a
-- task name no script.
SELECT DISTINCT namespace, substring(task FROM '^\{\s*"kind":\s*"python",\s*"file":\s*"sha256:([0-9a-f]{64})"\s*\}$') AS digest
FROM tickwise.tasks WHERE task ~ '^\{\s*"kind":\s*"python",\s*"file":\s*"sha256:[0-9a-f]{64}"\s*\}$'
