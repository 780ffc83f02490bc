-- The sessions that write the ends of runs.
SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tickwise%finish%' AND datname = current_database()
