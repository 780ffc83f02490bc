-- What was done to the rows of each table, its partitions counted as one, and what its pages take.
SELECT regexp_replace(relname, '_(rest|passing|lasting|\d{8}(_kept)?)$', '') AS name,
       sum(n_tup_ins)::bigint AS inserted, sum(n_tup_upd)::bigint AS updated, sum(n_tup_hot_upd)::bigint AS hot,
       sum(n_tup_del)::bigint AS deleted
FROM pg_stat_user_tables WHERE schemaname IN ('tickwise', 'raw') GROUP BY 1;
