-- What follows from the ends of these runs is made now: which of them are still to be followed. The rows are locked in
-- one order, so that two that follow the same ends do not wait in a circle. $1 namespace, $2 runs.
WITH l AS MATERIALIZED (
  SELECT run_id FROM tickwise.follows f
  WHERE run_id = ANY($2::uuid[]) AND (SELECT h.namespace = $1 FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS NOT FALSE
  ORDER BY run_id FOR UPDATE
)
DELETE FROM tickwise.follows WHERE run_id = ANY(ARRAY(SELECT run_id FROM l)) RETURNING run_id
