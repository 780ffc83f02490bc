-- Delete the rows of these ended runs; return those that were still there. Rows that another scheduler has locked are left to it: if
-- its transaction fails, the next look finds them. $1 namespace, $2 runs.
WITH l AS MATERIALIZED (
  SELECT run_id FROM tickwise.follows f
  WHERE run_id = ANY($2::uuid[]) AND (SELECT h.namespace = $1 FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS NOT FALSE
  FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwise.follows WHERE run_id = ANY(ARRAY(SELECT run_id FROM l)) RETURNING run_id
