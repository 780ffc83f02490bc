-- Says which namespaces have seals of days that go: the retention of the audit log asks for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_seals_of_namespace ON tickwise.audit_seals (namespace, until);
