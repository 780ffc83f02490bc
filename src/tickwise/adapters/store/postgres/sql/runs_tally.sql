-- How many runs came on record in each hour, by final state. $1 namespace (NULL: all), $2 and $3 hours from and before, $4 at most.
SELECT date_part('epoch', hour) AS hour, state, sum(runs)::bigint AS runs
FROM (
  SELECT hour, state, runs FROM tickwise.tallies
  WHERE ($1::text IS NULL OR namespace = $1) AND hour >= to_timestamp($2::float8) AND hour < to_timestamp($3::float8)
  UNION ALL
  SELECT hour, state, runs FROM tickwise.tallies_new
  WHERE ($1::text IS NULL OR namespace = $1) AND hour >= to_timestamp($2::float8) AND hour < to_timestamp($3::float8)) t
GROUP BY hour, state ORDER BY hour, state LIMIT $4
