-- Dead and live rows of the timers and the runs, as the server counts them, and the size of what holds the timers.
SELECT relname, n_live_tup AS live, n_dead_tup AS dead, n_tup_upd AS updates, n_tup_hot_upd AS hot, autovacuum_count AS vacuums,
       pg_total_relation_size(relid) / 1048576.0 AS megabytes
FROM pg_stat_user_tables WHERE schemaname = 'tickwise' AND relname IN ('timers', 'runs');
