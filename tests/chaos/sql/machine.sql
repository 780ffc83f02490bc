-- What the server is, for a result that somebody else may want to repeat.
SELECT current_setting('server_version') AS postgres, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit;
