-- As if the rules had just been stored: the namespace notes events.
WITH v AS (UPDATE tickwise.notices_version SET version = version + 1)
INSERT INTO tickwise.notices_watched (namespace, rules, retries) SELECT namespace, count(*), 0 FROM tickwise.notification_rules GROUP BY namespace
