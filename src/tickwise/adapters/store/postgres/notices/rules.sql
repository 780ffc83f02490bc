-- name: notices_version_next
-- Give the rules another version. Until the transaction ends no other one changes rules.
UPDATE tickwise.notices_version SET version = version + 1

-- name: notices_version
-- The version of the rules, and whether a namespace notes events.
SELECT version, EXISTS (SELECT FROM tickwise.notices_watched) FROM tickwise.notices_version

-- name: notification_rule_get
-- One rule by its id $1.
SELECT body, version, date_part('epoch', created_at) AS created_at, created_by, channels, namespace
FROM tickwise.notification_rules WHERE rule_id = $1

-- name: notification_rules_count
-- The number of rules of the namespace $1, and whether another one than $3 has the name $2.
SELECT count(*), coalesce(bool_or(name = $2 AND rule_id <> $3::uuid), false) FROM tickwise.notification_rules WHERE namespace = $1

-- name: notification_rules_whole
-- The number of rules that concern the whole namespace $1.
SELECT count(*) FROM tickwise.notification_rules WHERE namespace = $1 AND jobs = '{}' AND body::jsonb -> 'labels' = '{}'

-- name: notification_rule_channels
-- Those of the channels $2 that are in the namespace $1. None of them goes before the transaction ends.
SELECT channel_id FROM tickwise.channels WHERE namespace = $1 AND channel_id = ANY($2::uuid[]) ORDER BY channel_id FOR KEY SHARE

-- name: notification_rule_add
-- Store a rule. $1 id, $2 namespace, $3 name, $4 by whom, $5 channels, $6 jobs, $7 events, $8 whether it is enabled, $9 body.
INSERT INTO tickwise.notification_rules (created_at, rule_id, namespace, name, created_by, channels, jobs, events, enabled, body)
VALUES (tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: notification_rule_change
-- Replace a rule. $1 id, $2 name, $3 channels, $4 jobs, $5 events, $6 whether it is enabled, $7 body.
UPDATE tickwise.notification_rules
SET version = version + 1, name = $2, channels = $3, jobs = $4, events = $5, enabled = $6, body = $7
WHERE rule_id = $1

-- name: notification_rule_drop
-- Delete the rule $1 of the namespace $2.
DELETE FROM tickwise.notification_rules WHERE rule_id = $1 AND namespace = $2 RETURNING true

-- name: notification_rule_silence
-- Close the alerts of the rule $1, and drop its notices that wait.
WITH a AS (
  UPDATE tickwise.alerts SET state = 'closed', closed_at = tickwise.now(), next_at = NULL, version = version + 1
  WHERE rule_id = $1 AND state <> 'closed'
)
UPDATE tickwise.notices SET state = 'dropped', ended_at = tickwise.now(), sender = NULL, leased_until = NULL
WHERE rule_id = $1 AND state = 'waiting'

-- name: notification_rule_wake
-- Look at the open alerts of the rule $1 soon: when they are told again may have changed.
UPDATE tickwise.alerts SET next_at = tickwise.now() WHERE rule_id = $1 AND state = 'open'

-- name: notices_watch_rules
-- Note events of the namespace $1 from now on if it has an enabled rule.
INSERT INTO tickwise.notices_watched AS w (namespace, rules, retries)
SELECT $1, count(*), count(*) FILTER (WHERE 'retries' = ANY(events))
FROM tickwise.notification_rules WHERE namespace = $1 AND enabled HAVING count(*) > 0
ON CONFLICT (namespace) DO UPDATE SET rules = excluded.rules, retries = excluded.retries

-- name: notices_unwatch_rules
-- Note no events of the namespace $1 any more if it has no enabled rule, unless jobs name channels themselves.
WITH w AS (
  SELECT namespace, by_jobs FROM tickwise.notices_watched w WHERE w.namespace = $1
    AND NOT EXISTS (SELECT FROM tickwise.notification_rules r WHERE r.namespace = $1 AND r.enabled)
),
d AS (DELETE FROM tickwise.notices_watched USING w WHERE notices_watched.namespace = w.namespace AND NOT w.by_jobs)
UPDATE tickwise.notices_watched u SET rules = 0, retries = 0 FROM w WHERE u.namespace = w.namespace AND w.by_jobs

-- name: notification_rules_find
-- Rules by their names. $1 namespace (NULL: all), $2 rule (NULL: any), $3 channel (NULL: any), $4 names above it (NULL: all), $5 limit.
SELECT body, version, date_part('epoch', created_at) AS created_at, created_by, channels, namespace
FROM tickwise.notification_rules
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::uuid IS NULL OR rule_id = $2)
  AND ($3::uuid IS NULL OR channels @> ARRAY[$3::uuid]) AND ($4::text IS NULL OR name > $4)
ORDER BY name, namespace LIMIT $5

-- name: notices_watch_jobs
-- Note events of the namespace $1 from now on, because a job names channels itself.
INSERT INTO tickwise.notices_watched AS w (namespace, by_jobs) VALUES ($1, true)
ON CONFLICT (namespace) DO UPDATE SET by_jobs = true WHERE NOT w.by_jobs
