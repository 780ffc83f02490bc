-- Our tables that nobody cleans or analyses: autovacuum is off for them, or it is far behind what their own settings ask of it.
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
