-- Note of the lanes $1 which no job and no run uses, since when. Reads all jobs.
WITH used AS MATERIALIZED (
  SELECT lane FROM tickwise.jobs WHERE lane = ANY($1::int[])
  UNION SELECT lane FROM tickwise.runs WHERE lane = ANY($1::int[])
)
UPDATE tickwise.lanes l SET idle = CASE WHEN l.lane NOT IN (SELECT lane FROM used) THEN tickwise.now() END
WHERE lane = ANY($1::int[]) AND (idle IS NULL) <> (l.lane IN (SELECT lane FROM used))
