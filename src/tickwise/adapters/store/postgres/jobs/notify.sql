-- name: notify_watch
-- Note the events of a namespace from now on, because a job of it names channels. $1 namespace. Almost always it is known: then
-- nothing is written, so submits do not wait for each other.
WITH w AS (
  INSERT INTO tickwise.notices_watched (namespace, by_jobs)
  SELECT $1, true WHERE NOT EXISTS (SELECT FROM tickwise.notices_watched WHERE namespace = $1 AND by_jobs)
  ON CONFLICT (namespace) DO UPDATE SET by_jobs = true WHERE NOT notices_watched.by_jobs
  RETURNING namespace
)
UPDATE tickwise.notices_version SET version = version + 1 WHERE EXISTS (SELECT FROM w)
