-- Fold what was counted last into the hours; how many rows went, at most $1. Whoever reads meanwhile sees it before or after.
WITH gone AS (
  DELETE FROM tickwise.tallies_new WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.tallies_new LIMIT $1)) RETURNING *
),
folded AS (
  INSERT INTO tickwise.tallies AS t (hour, runs, state, namespace)
  SELECT hour, sum(runs), state, namespace FROM gone GROUP BY namespace, hour, state
  ON CONFLICT (namespace, hour, state) DO UPDATE SET runs = t.runs + excluded.runs
)
SELECT count(*) FROM gone
