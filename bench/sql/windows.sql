-- How many runs ended in each window of $2 seconds from $1 on, up to $3 (Unix seconds); empty ones are left out.
SELECT floor((extract(epoch FROM ended)::float8 - $1::float8) / $2::float8)::int AS window, count(*)::int AS ended
FROM tickwise.history
WHERE ended >= to_timestamp($1) AND ended < to_timestamp($3)
GROUP BY 1;
