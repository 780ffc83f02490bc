-- Runs that lie in no partition of their time and are past it; how many. $1 ends before this, $2 those of failed runs, $3 at most.
WITH gone AS (
  DELETE FROM tickwise.history_rest
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.history_rest
      WHERE ended < to_timestamp($1::float8) AND (state <> 6 OR ended < to_timestamp($2::float8))
        AND run_id NOT IN (SELECT run_id FROM tickwise.follows)
      LIMIT $3))
  RETURNING 1
)
SELECT count(*) FROM gone
