-- Keys that end soon.
CREATE INDEX CONCURRENTLY IF NOT EXISTS keys_ending ON tickwise.keys (expires, key_id) WHERE expires IS NOT NULL;
