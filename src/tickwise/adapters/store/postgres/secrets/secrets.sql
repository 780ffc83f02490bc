-- name: secrets_lock
-- Let one transaction at a time count and add the secrets of a namespace. $1 namespace.
SELECT pg_advisory_xact_lock(8388356, hashtext($1))

-- name: secrets_count
-- The number of secrets of a namespace. $1 namespace.
SELECT count(*) FROM tickwise.secrets WHERE namespace = $1

-- name: secret_lock
-- The newest version of a secret, locked, and its sealed data key. $1 namespace, $2 name.
SELECT version, sealed_key FROM tickwise.secrets WHERE namespace = $1 AND name = $2 FOR UPDATE

-- name: secret_add
-- Store the first version of a secret. $1 namespace, $2 name, $3 by whom, $4 id of the key, $5 sealed data key, $6 sealed value.
WITH s AS (
  INSERT INTO tickwise.secrets (created_at, changed_at, version, namespace, name, created_by, changed_by, key_id, sealed_key, sealed_value)
  VALUES (tickwise.now(), tickwise.now(), 1, $1, $2, $3, $3, $4, $5, $6)
)
INSERT INTO tickwise.secret_versions (set_at, version, namespace, name, set_by) VALUES (tickwise.now(), 1, $1, $2, $3)

-- name: secret_replace
-- Replace the value of a secret, and drop the records of versions beyond those that are kept. $1 namespace, $2 name, $3 by whom, $4 id of
-- the key, $5 sealed data key, $6 sealed value, $7 version, $8 versions that are kept.
WITH s AS (
  UPDATE tickwise.secrets SET changed_at = tickwise.now(), version = $7, changed_by = $3, key_id = $4, sealed_key = $5, sealed_value = $6
  WHERE namespace = $1 AND name = $2
),
d AS (DELETE FROM tickwise.secret_versions WHERE namespace = $1 AND name = $2 AND version <= $7 - $8)
INSERT INTO tickwise.secret_versions (set_at, version, namespace, name, set_by) VALUES (tickwise.now(), $7, $1, $2, $3)

-- name: secrets_find
-- Secrets by namespace and name. $1 namespace (NULL: all), $2 name (NULL: all), $3 and $4 namespace and name behind which they stand (NULL:
-- from the first), $5 ids of keys that do not wrap them, $6 at most, $7 jobs that are counted of each at most.
SELECT namespace, name, version, key_id, date_part('epoch', created_at) AS created_at, created_by,
       date_part('epoch', changed_at) AS changed_at, changed_by,
       (SELECT count(*) FROM (
          SELECT FROM tickwise.jobs_lasting j
          WHERE $7 > 0 AND j.secrets IS NOT NULL AND j.secrets @> ARRAY[s.name COLLATE "default"] AND j.namespace = s.namespace
            AND j.standing <> {JobStanding.CANCELLED} AND (j.recurring OR j.schedule_type = 'ON_DEMAND')
          LIMIT $7) c) AS jobs
FROM tickwise.secrets s
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR (namespace, name) > ($3, $4::text))
  AND key_id <> ALL ($5::bytea[])
ORDER BY namespace, name LIMIT $6

-- name: secret_versions
-- The records of the versions of a secret, the newest first. $1 namespace, $2 name, $3 at most.
SELECT version, date_part('epoch', set_at) AS set_at, set_by FROM tickwise.secret_versions WHERE namespace = $1 AND name = $2
ORDER BY version DESC LIMIT $3

-- name: secret_remove
-- Delete a secret with the records of its versions. $1 namespace, $2 name.
DELETE FROM tickwise.secrets WHERE namespace = $1 AND name = $2

-- name: secrets_sealed
-- The sealed values of secrets, as an executor's role may read them. $1 namespaces, $2 names.
SELECT s.namespace, s.name, s.version, s.sealed_key, s.sealed_value
FROM unnest($1::text[], $2::text[]) AS w(namespace, name)
JOIN tickwise.secrets_sealed s ON s.namespace = w.namespace AND s.name = w.name

-- name: secret_uses
-- Jobs whose task names a secret: those that stay, and of one-time ones those that wait or run. $1 namespace, $2 name, $3 at most, $4 one-time
-- jobs to look at; `more`: not all of these were looked at. One row at least: `job_id` NULL, there is none.
WITH stay AS (
  SELECT job_id, name, key, labels::text AS labels FROM tickwise.jobs_lasting
  WHERE secrets IS NOT NULL AND secrets @> ARRAY[$2::text] AND namespace = $1 AND standing <> {JobStanding.CANCELLED}
    AND (recurring OR schedule_type = 'ON_DEMAND')
  LIMIT $3
),
once AS MATERIALIZED (
  SELECT job_id, name, key, labels::text AS labels FROM tickwise.jobs_lasting
  WHERE secrets IS NOT NULL AND secrets @> ARRAY[$2::text] AND namespace = $1 AND standing <> {JobStanding.CANCELLED}
    AND NOT recurring AND schedule_type <> 'ON_DEMAND'
  LIMIT $4 + 1
),
found AS (
  SELECT * FROM stay
  UNION ALL
  (SELECT * FROM once o
   -- Scalar, so that no plan reads all timers or runs at once.
   WHERE (SELECT true FROM tickwise.timers t WHERE t.job_id = o.job_id) OR (SELECT true FROM tickwise.runs r WHERE r.job_id = o.job_id LIMIT 1)
   LIMIT $3)
)
SELECT f.*, l.more FROM (SELECT count(*) > $4 AS more FROM once) l LEFT JOIN found f ON true ORDER BY f.job_id

-- name: tasks_naming_secrets
-- The newest version of each task that has the word `secret`, by id. $1 namespace, $2 limit.
SELECT t.namespace, t.task_id, t.version, t.name, t.task, t.digest, t.created_by, date_part('epoch', t.created) AS created_at
FROM tickwise.tasks t
WHERE t.task LIKE '%secret%' AND t.namespace = $1
  AND NOT EXISTS (SELECT FROM tickwise.tasks n WHERE n.namespace = t.namespace AND n.task_id = t.task_id AND n.version > t.version)
ORDER BY t.task_id LIMIT $2

-- name: secrets_keys_used
-- The number of secrets by the id of the key that wraps them.
SELECT key_id, count(*) AS secrets FROM tickwise.secrets GROUP BY key_id

-- name: secrets_sealed_keys
-- The sealed data keys of secrets. The parameters are those of `secrets_find`.
SELECT namespace, name, sealed_key FROM tickwise.secrets
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR (namespace, name) > ($3, $4::text))
  AND key_id <> ALL ($5::bytea[])
ORDER BY namespace, name LIMIT $6

-- name: secrets_rewrap
-- Replace sealed data keys that are as they were read; one row for each that was replaced. $1 namespaces, $2 names, $3 as they were, $4 as
-- they are to be, $5 ids of their keys.
WITH w AS MATERIALIZED (
  SELECT s.namespace, s.name, w.new, w.key_id
  FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) AS w(namespace, name, old, new, key_id)
  JOIN tickwise.secrets s ON s.namespace = w.namespace AND s.name = w.name AND s.sealed_key = w.old
  ORDER BY s.namespace, s.name FOR UPDATE OF s
)
UPDATE tickwise.secrets s SET sealed_key = w.new, key_id = w.key_id FROM w WHERE s.namespace = w.namespace AND s.name = w.name RETURNING true

-- name: secret_trace
-- All that is stored of a secret, as text; its sealed value also in hexadecimal digits. $1 namespace, $2 name.
SELECT encode(s.sealed_value, 'hex') || s::text || (SELECT coalesce(string_agg(v::text, ''), '') FROM tickwise.secret_versions v WHERE v.namespace = $1 AND v.name = $2)
FROM tickwise.secrets s WHERE namespace = $1 AND name = $2
