-- The server's processes: who each works for, and the WAL that it has written itself.
SELECT a.pid, a.backend_type, a.application_name, coalesce(w.wal_bytes, 0)::bigint AS wal
FROM pg_stat_activity a LEFT JOIN LATERAL pg_stat_get_backend_wal(a.pid) w ON true;
