-- End every session of the product. How many there were.
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name LIKE 'tickwise%' AND datname = current_database() AND usename = current_user;
