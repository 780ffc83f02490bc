-- How many with ids from $1 on have ended durably, and the server's clock at the moment of which that is true.
SELECT (SELECT count(*) FROM tickwise.history WHERE run_id >= $1) AS ended, extract(epoch FROM statement_timestamp())::float8 AS at;
