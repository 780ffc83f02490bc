-- A new version of a task, unless its newest has the same content. $1 namespace, $2 task, $3 name, $4 content, $5 digest,
-- $6 by whom.
INSERT INTO tickwise.tasks (created, version, namespace, task_id, name, task, digest, created_by)
SELECT tickwise.now(), coalesce(n.version, 0) + 1, $1, $2, $3, $4, $5, $6
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT version, digest FROM tickwise.tasks WHERE namespace = $1 AND task_id = $2 ORDER BY version DESC LIMIT 1) n ON true
WHERE n.digest IS DISTINCT FROM $5
