-- name: rules_count
-- The number of rules, and of those of one kind in one namespace. $1 namespace, $2 kind.
SELECT count(*), count(*) FILTER (WHERE namespace = $1 AND kind = $2) FROM tickwise.rules

-- name: rule_put
-- Store a calendar or window, in place of the one of its name. $1 namespace, $2 kind, $3 name, $4 body, $5 by whom it is created.
INSERT INTO tickwise.rules AS r (created, updated, version, namespace, kind, name, body, created_by)
VALUES (tickwise.now(), tickwise.now(), 1, $1, $2, $3, $4, $5)
ON CONFLICT (namespace, kind, name) DO UPDATE SET version = r.version + 1, updated = excluded.updated, body = excluded.body
RETURNING namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
          date_part('epoch', updated) AS updated_at

-- name: rules_changed
-- Note that the rules have changed, and have the timers that they hold back in this namespace decided anew. $1 namespace.
WITH v AS (UPDATE tickwise.rules_version SET version = version + 1)
UPDATE tickwise.timers SET due = (SELECT tickwise.now())
WHERE hold IN ('calendar', 'maintenance') AND due > (SELECT tickwise.now())
  AND job_id IN (
    SELECT t.job_id FROM tickwise.timers t JOIN tickwise.jobs j ON j.job_id = t.job_id
    WHERE t.hold IN ('calendar', 'maintenance') AND j.namespace = $1)

-- name: rules_list
-- Calendars or windows by name. $1 namespace, $2 kind, $3 names (NULL: any), $4 page: names after it, $5 limit.
SELECT namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, octet_length(body) AS bytes
FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND ($3::text[] IS NULL OR name = ANY($3)) AND ($4::text IS NULL OR name COLLATE "C" > $4)
ORDER BY name COLLATE "C" LIMIT $5

-- name: calendar_used
-- Check whether a job that is not cancelled goes by a calendar. $1 namespace, $2 name.
SELECT EXISTS (
  SELECT FROM tickwise.jobs_lasting
  WHERE calendars IS NOT NULL AND calendars @> ARRAY[$2::text] AND namespace = $1 AND standing <> {JobStanding.CANCELLED})

-- name: rule_drop
-- Delete a calendar or window. $1 namespace, $2 kind, $3 name.
DELETE FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND name = $3 RETURNING true

-- name: rules_all
-- The version of all rules, and with it each of them; one row at least.
SELECT v.version AS all_version, r.namespace, r.kind, r.name, r.body, r.version, r.created_by, date_part('epoch', r.created) AS created_at,
       date_part('epoch', r.updated) AS updated_at
FROM tickwise.rules_version v LEFT JOIN tickwise.rules r ON true

-- name: rules_lock
-- Rules change one after the other, and while no timer is being decided. It gives up soon, because every decision waits
-- behind it. The number is that of `fires_begin`.
SELECT set_config('lock_timeout', '500ms', true), pg_advisory_xact_lock(8388353586463617382)

-- name: rule_get
-- One calendar or window. $1 namespace, $2 kind, $3 name.
SELECT namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at
FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND name = $3
