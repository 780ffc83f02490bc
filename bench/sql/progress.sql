-- How many have ended durably, and the server's clock at the moment of which that is true.
SELECT (SELECT count(*) FROM tickwise.history) AS ended, extract(epoch FROM statement_timestamp())::float8 AS at;
