-- What each statement has cost since the last reset: time within the server, bytes of log, pages found in the cache, read and dirtied.
SELECT query, sum(calls)::bigint AS calls, sum(rows)::bigint AS rows, sum(total_exec_time + total_plan_time) * 1000.0 AS microseconds,
       sum(wal_bytes)::bigint AS wal, sum(shared_blks_hit)::bigint AS hits,
       sum(shared_blks_read)::bigint AS reads, sum(shared_blks_dirtied)::bigint AS dirtied
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
GROUP BY query;
