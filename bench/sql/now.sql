-- The server's clock, Unix seconds.
SELECT extract(epoch FROM clock_timestamp())::float8;
