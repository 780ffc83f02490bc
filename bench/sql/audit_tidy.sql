-- As a log is that was written long ago.
VACUUM (ANALYZE) tickwise.audit, tickwise.audit_seals, tickwise.audit_unsealed
