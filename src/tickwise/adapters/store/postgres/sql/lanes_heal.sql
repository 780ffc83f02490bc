-- Runs and jobs that were written into freed lanes: the lane comes back with its number, or they go to the lane that has taken its
-- place. A job may make its first run there long after the number is forgotten. Reads all jobs if a lane is freed. How many lanes.
WITH lost AS MATERIALIZED (
  SELECT f.*, l.lane AS instead FROM tickwise.lanes_freed f LEFT JOIN tickwise.lanes l USING (namespace, queue, priority, requires)
  WHERE (SELECT true FROM tickwise.runs r WHERE r.lane = f.lane LIMIT 1)
     OR f.lane IN (SELECT j.lane FROM tickwise.jobs j WHERE j.lane IN (SELECT lane FROM tickwise.lanes_freed))
),
back AS (
  INSERT INTO tickwise.lanes (lane, priority, namespace, queue, requires) OVERRIDING SYSTEM VALUE
  SELECT lane, priority, namespace, queue, requires FROM lost WHERE instead IS NULL
  ON CONFLICT DO NOTHING RETURNING lane
),
freed AS (DELETE FROM tickwise.lanes_freed WHERE lane IN (SELECT lane FROM back)),
jobs AS (
  UPDATE tickwise.jobs j SET lane = lost.instead FROM lost WHERE lost.instead IS NOT NULL AND j.lane = lost.lane
),
runs AS (UPDATE tickwise.runs r SET lane = lost.instead FROM lost WHERE lost.instead IS NOT NULL AND r.lane = lost.lane)
SELECT count(*) FROM lost
