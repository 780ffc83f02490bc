-- The sessions of the product.
SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tickwise%' AND datname = current_database() ORDER BY pid;
