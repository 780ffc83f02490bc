-- Bytes of WAL written so far.
SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint;
