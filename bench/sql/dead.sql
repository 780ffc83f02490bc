-- Rows that vacuum has yet to remove, in all tables of the product.
SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'tickwise';
