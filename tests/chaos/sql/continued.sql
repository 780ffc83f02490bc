-- How many jobs have succeeded with an occurrence after an instant. $1 that instant, in Unix seconds.
SELECT count(DISTINCT job_id) FROM tickwise.history WHERE state = 5 AND nominal IS NULL AND due > to_timestamp($1::float8)
