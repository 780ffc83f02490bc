-- name: server_findings
-- The server's settings that an operator may want to correct.
SELECT r.rolsuper AS superuser, r.rolname AS role, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
       current_setting('track_counts') AS track_counts, current_setting('statement_timeout') AS statement_timeout,
       EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = to_regclass('tickwise.jobs_names') AND i.indisvalid) AS names_indexed
FROM pg_roles r WHERE r.rolname = current_user

-- name: server_tables
-- Tickwise's tables that are not vacuumed or analysed: autovacuum is off for them, or it is far behind their own settings.
-- $1 how many times over. Counters begin anew after a crash of the server, so a table is listed too late rather than in vain.
WITH t AS MATERIALIZED (
  SELECT c.oid, c.relname, c.reltuples,
         (SELECT jsonb_object_agg(option_name, option_value) FROM pg_options_to_table(c.reloptions)) AS own
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'tickwise' AND c.relkind = 'r'
),
s AS MATERIALIZED (
  SELECT t.relname, t.own ->> 'autovacuum_enabled' AS enabled, st.n_dead_tup AS dead, st.n_mod_since_analyze AS changed,
         coalesce((t.own ->> 'autovacuum_vacuum_threshold')::float8, current_setting('autovacuum_vacuum_threshold')::float8)
           + coalesce((t.own ->> 'autovacuum_vacuum_scale_factor')::float8, current_setting('autovacuum_vacuum_scale_factor')::float8)
             * greatest(t.reltuples, 0) AS vacuum_at,
         coalesce((t.own ->> 'autovacuum_analyze_threshold')::float8, current_setting('autovacuum_analyze_threshold')::float8)
           + coalesce((t.own ->> 'autovacuum_analyze_scale_factor')::float8, current_setting('autovacuum_analyze_scale_factor')::float8)
             * greatest(t.reltuples, 0) AS analyze_at
  FROM t JOIN pg_stat_all_tables st ON st.relid = t.oid
)
SELECT relname AS name, coalesce(enabled::boolean, true) AS enabled, dead, changed, dead > $1::float8 * greatest(vacuum_at, 10000) AS unclean,
       changed > $1::float8 * greatest(analyze_at, 10000) AS unread
FROM s
WHERE NOT coalesce(enabled::boolean, true) OR dead > $1::float8 * greatest(vacuum_at, 10000) OR changed > $1::float8 * greatest(analyze_at, 10000)
ORDER BY relname

-- name: server_pins
-- The causes that keep dead rows of this database from being removed, the worst first: sessions with an old snapshot or an open
-- transaction, transactions that were prepared and forgotten, replication slots that nobody reads. $1 seconds, $2 transactions: younger
-- ones are left out, and so are sessions named $3 for $4 seconds. Without the rights of pg_read_all_stats neither the times nor the kind of
-- other roles' processes are shown to us: then every named process counts as a session, and only the number of transactions tells its age.
WITH pins AS (
  SELECT 'session' AS kind, pid::text AS name, usename::text AS who, coalesce(state, '') AS doing,
         date_part('epoch', clock_timestamp() - xact_start) AS seconds, greatest(age(backend_xmin), age(backend_xid)) AS transactions,
         0::float8 AS bytes
  FROM pg_stat_activity
  WHERE (datname = current_database() AND pid <> pg_backend_pid()
         AND (backend_type = 'client backend' OR backend_type IS NULL AND usename IS NOT NULL)
         AND NOT (application_name = $3::text AND coalesce(date_part('epoch', clock_timestamp() - xact_start), 0) < $4::float8)
         OR backend_type = 'walsender' OR backend_type IS NULL AND datname IS NULL AND usename IS NOT NULL)
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in transaction%')
  UNION ALL
  SELECT 'prepared', gid, owner::text, '', date_part('epoch', clock_timestamp() - prepared), age(transaction), 0
  FROM pg_prepared_xacts WHERE database = current_database()
  UNION ALL
  SELECT 'slot', slot_name::text, coalesce(plugin::text, 'physical'), '',
         date_part('epoch', clock_timestamp() - (to_jsonb(s) ->> 'inactive_since')::timestamptz), greatest(age(xmin), age(catalog_xmin)),
         coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::float8
  FROM pg_replication_slots s WHERE NOT active AND NOT pg_is_in_recovery()
)
SELECT kind, name, who, doing, seconds, transactions, bytes FROM pins
WHERE seconds > $1::float8 OR seconds IS NULL AND (transactions > $2::bigint OR kind = 'slot')
ORDER BY transactions DESC NULLS LAST, seconds DESC NULLS LAST LIMIT 20
