-- Attempts of runs that are no longer on record; how many. $1 the id below which even failed runs are past their time, $2 at most.
WITH gone AS (
  DELETE FROM tickwise.attempts
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.attempts a
      WHERE run_id < $1 AND NOT EXISTS (SELECT FROM tickwise.runs_shown r WHERE r.run_id = a.run_id)
      LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone
