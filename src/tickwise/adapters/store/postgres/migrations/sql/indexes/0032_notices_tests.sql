-- The test of a channel that waits.
CREATE INDEX CONCURRENTLY IF NOT EXISTS notices_tests ON tickwise.notices (channel_id) WHERE state = 'waiting' AND is_test;
