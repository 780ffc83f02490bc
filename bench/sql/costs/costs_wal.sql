-- How far the log is written.
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint;
