-- As if there was no rule: schedulers forget them, and no event is noted. The rules stay in their table.
WITH v AS (UPDATE tickwise.notices_version SET version = version + 1),
e AS (UPDATE tickwise.notification_rules SET body = jsonb_set(body::jsonb, '{enabled}', 'false')::text)
DELETE FROM tickwise.notices_watched
