-- What an operator may want to put right.
SELECT r.rolsuper AS superuser, r.rolname AS role, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
       current_setting('track_counts') AS track_counts, current_setting('statement_timeout') AS statement_timeout
FROM pg_roles r WHERE r.rolname = current_user
