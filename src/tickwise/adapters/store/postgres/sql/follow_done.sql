-- What follows from the end of a run is made; no row if it was made before. $1 namespace, $2 run.
DELETE FROM tickwise.follows f
WHERE run_id = $2 AND (SELECT h.namespace = $1 FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS NOT FALSE
RETURNING true
