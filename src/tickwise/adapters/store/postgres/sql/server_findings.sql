-- What an operator may want to put right.
SELECT r.rolsuper AS superuser, r.rolname AS role, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit
FROM pg_roles r WHERE r.rolname = current_user
