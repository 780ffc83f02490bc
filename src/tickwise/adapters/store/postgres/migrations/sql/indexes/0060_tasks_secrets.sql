-- Stored tasks that have the word `secret`: a look for those that name one reads no other task.
CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_secrets ON tickwise.tasks (namespace, task_id, version) WHERE task LIKE '%secret%';
