-- All rules are enabled.
UPDATE tickwise.notification_rules SET enabled = true, body = jsonb_set(body::jsonb, '{enabled}', 'true')::text
