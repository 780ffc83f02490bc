-- name: channel_get
-- One channel, in the columns of `channels_find`. $1 id.
SELECT channel_id, namespace, name, kind, settings, allow_private, created_by, version, date_part('epoch', created_at) AS created_at,
       date_part('epoch', delivered_at) AS delivered_at, date_part('epoch', failed_at) AS failed_at, error, failures,
       date_part('epoch', again_at) AS again_at, slow
FROM tickwise.channels WHERE channel_id = $1

-- name: channels_count
-- The number of channels of a namespace. $1 namespace.
SELECT count(*) FROM tickwise.channels WHERE namespace = $1

-- name: channel_add
-- Store a channel. $1 id, $2 namespace, $3 name, $4 kind, $5 settings, $6 whether its address may be private, $7 by whom.
INSERT INTO tickwise.channels (created_at, allow_private, channel_id, namespace, name, kind, settings, created_by)
VALUES (tickwise.now(), $6, $1, $2, $3, $4, $5, $7)

-- name: channel_secrets_put
-- Keep the secrets of a channel. $1 id, $2 secrets.
INSERT INTO tickwise.channel_secrets (channel_id, secrets) VALUES ($1, $2)
ON CONFLICT (channel_id) DO UPDATE SET secrets = excluded.secrets

-- name: channel_lock
-- The name and version of a channel, locked. $1 namespace, $2 id.
SELECT name, version FROM tickwise.channels WHERE namespace = $1 AND channel_id = $2 FOR UPDATE

-- name: channel_change
-- Replace the fields of a channel, which is tried at once. $1 id, $2 name, $3 kind, $4 settings, $5 whether its address may be private.
UPDATE tickwise.channels SET version = version + 1, name = $2, kind = $3, settings = $4, allow_private = $5,
  failures = 0, again_at = NULL, slow = false
WHERE channel_id = $1

-- name: channel_remove
-- Delete a channel: it leaves its rules, and its waiting notices are dropped. $1 namespace, $2 id. Returns whether it was there.
WITH c AS (DELETE FROM tickwise.channels WHERE namespace = $1 AND channel_id = $2 RETURNING channel_id),
r AS (
  UPDATE tickwise.notification_rules SET version = version + 1, channels = array_remove(channels, $2::uuid)
  WHERE channels @> ARRAY[$2::uuid] AND EXISTS (SELECT FROM c)
),
n AS (
  UPDATE tickwise.notices SET state = 'dropped', sender = NULL, ended_at = tickwise.now()
  WHERE channel_id IN (SELECT channel_id FROM c) AND state = 'waiting'
)
SELECT true FROM c

-- name: channel_escalations
-- The rules of the namespace $1 that name the channel with the id $2 (as text) anywhere. The channels of a rule are a column too, its escalation
-- is in the body alone.
SELECT body FROM tickwise.notification_rules WHERE namespace = $1 AND position($2 IN body) > 0 FOR UPDATE

-- name: channel_escalation_leave
-- Replace the body of the rule $1 by $2.
UPDATE tickwise.notification_rules SET version = version + 1, body = $2 WHERE rule_id = $1

-- name: channels_find
-- The channels of a namespace by name. $1 namespace, $2 ids (NULL: all).
SELECT channel_id, namespace, name, kind, settings, allow_private, created_by, version, date_part('epoch', created_at) AS created_at,
       date_part('epoch', delivered_at) AS delivered_at, date_part('epoch', failed_at) AS failed_at, error, failures,
       date_part('epoch', again_at) AS again_at, slow
FROM tickwise.channels WHERE namespace = $1 AND ($2::uuid[] IS NULL OR channel_id = ANY($2)) ORDER BY name COLLATE "C"

-- name: channel_there
-- A channel of a namespace, locked; whether it rests or has rested. $1 namespace, $2 id.
SELECT again_at IS NOT NULL AS rests FROM tickwise.channels WHERE namespace = $1 AND channel_id = $2 FOR UPDATE

-- name: channels_backlog
-- The notices that are due or were tried, and their events, of each of these channels, of which so many are looked at. $1 ids, $2 at most.
SELECT c.channel_id, n.notices, n.events
FROM unnest($1::uuid[]) AS c (channel_id)
CROSS JOIN LATERAL (
  SELECT count(*) AS notices, coalesce(sum(w.events), 0)::bigint AS events
  FROM (SELECT events, due, tries FROM tickwise.notices
        WHERE channel_id = c.channel_id AND state = 'waiting' AND sender IS NULL AND NOT is_test LIMIT $2) w
  WHERE w.due <= tickwise.now() OR w.tries > 0) n

-- name: channels_all
-- The ids of channels behind the id $1 (NULL: of all), of which $2 at most.
SELECT channel_id FROM tickwise.channels WHERE $1::uuid IS NULL OR channel_id > $1 ORDER BY channel_id LIMIT $2

-- name: channel_reseal
-- Replace the secrets $2 of the channel $1 by $3. No row: it has others, or is gone.
UPDATE tickwise.channel_secrets SET secrets = $3 WHERE channel_id = $1 AND secrets::jsonb = $2::text::jsonb RETURNING channel_id

-- name: channels_secrets
-- Channels with their secrets, for senders, in the order of their ids. $1 ids.
SELECT c.channel_id, namespace, name, kind, settings, allow_private, created_by, version, date_part('epoch', created_at) AS created_at,
       date_part('epoch', delivered_at) AS delivered_at, date_part('epoch', failed_at) AS failed_at, error, failures,
       date_part('epoch', again_at) AS again_at, slow, secrets
FROM tickwise.channels c JOIN tickwise.channel_secrets s ON s.channel_id = c.channel_id WHERE c.channel_id = ANY($1::uuid[])
ORDER BY c.channel_id

-- name: notices_changed
-- Note that rules or channels changed.
UPDATE tickwise.notices_version SET version = version + 1
