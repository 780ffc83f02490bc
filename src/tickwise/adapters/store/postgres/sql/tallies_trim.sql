-- Counts of hours before $1; how many, at most $2.
WITH gone AS (
  DELETE FROM tickwise.tallies
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.tallies WHERE hour < to_timestamp($1::float8) ORDER BY hour LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone
