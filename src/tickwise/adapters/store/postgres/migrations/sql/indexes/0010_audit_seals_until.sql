-- The seals of a day, for the search for entries that none names, and for retention.
CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_seals_until ON tickwise.audit_seals (until);
