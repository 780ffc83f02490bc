-- The server's version as one number.
SELECT current_setting('server_version_num')::int
