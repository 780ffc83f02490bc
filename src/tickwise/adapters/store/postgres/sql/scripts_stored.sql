-- Which namespace has stored which script. The whole text is matched, since no JSON function takes all that it may hold, and what lies
-- deeper in a task names no script.
SELECT DISTINCT namespace, substring(task FROM '^\{\s*"kind":\s*"python",\s*"file":\s*"sha256:([0-9a-f]{64})"\s*\}$') AS digest
FROM tickwise.tasks WHERE task ~ '^\{\s*"kind":\s*"python",\s*"file":\s*"sha256:[0-9a-f]{64}"\s*\}$'
