-- How many have ended, and the server's clock at that moment.
SELECT (SELECT count(*) FROM tickwise.history) AS ended, extract(epoch FROM clock_timestamp())::float8 AS at;
