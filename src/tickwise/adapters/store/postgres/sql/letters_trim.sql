-- What was done about runs that are no longer on record; how many. $1 the id below which even failed runs are past their time, $2 at most.
WITH gone AS (
  DELETE FROM tickwise.letters
  WHERE run_id = ANY(ARRAY(
      SELECT run_id FROM tickwise.letters l
      WHERE run_id < $1 AND (SELECT true FROM tickwise.history h WHERE h.run_id = l.run_id OFFSET 0) IS NULL
      LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM gone
