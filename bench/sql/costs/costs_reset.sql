-- Statements are counted anew.
SELECT pg_stat_statements_reset();
