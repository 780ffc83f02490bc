-- Notices count what their events are of, and the looks of notices go by indexes.
SELECT tickwise.lock_briefly(ARRAY['notices', 'alerts', 'keys']);

ALTER TABLE tickwise.notices ADD COLUMN subjects bigint NOT NULL DEFAULT 0;  -- 0: they were not counted
-- The test of a channel that waits.
CREATE INDEX notices_tests ON tickwise.notices (channel_id) WHERE state = 'waiting' AND is_test;
-- Alerts that are not closed, also where ninety days of closed ones lie between them.
CREATE INDEX alerts_stand ON tickwise.alerts (namespace, last_at, alert_id) WHERE state <> 'closed';
-- Keys that end soon.
CREATE INDEX keys_ending ON tickwise.keys (expires, key_id) WHERE expires IS NOT NULL;
