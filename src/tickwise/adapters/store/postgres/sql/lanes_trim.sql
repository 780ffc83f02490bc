-- Forget lanes that were freed more than $1 seconds ago, but for those in which there is a job or run: they are yet to be healed. (Of
-- two numbers of one lane only one comes back in a round.) Reads all jobs if there are such lanes.
WITH old AS MATERIALIZED (
  SELECT lane FROM tickwise.lanes_freed WHERE freed < tickwise.now() - $1::float8 * interval '1 second'
),
used AS MATERIALIZED (SELECT j.lane FROM tickwise.jobs j WHERE j.lane IN (SELECT lane FROM old))
DELETE FROM tickwise.lanes_freed f
WHERE f.lane IN (SELECT lane FROM old) AND f.lane NOT IN (SELECT lane FROM used)
  AND (SELECT true FROM tickwise.runs r WHERE r.lane = f.lane LIMIT 1) IS NULL
