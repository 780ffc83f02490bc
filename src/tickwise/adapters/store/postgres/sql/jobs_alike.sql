-- How many jobs there are of a namespace, of a schedule type and with labels, counted to $5 at most. $1 namespace, $2 labels,
-- $3 schedule type, $4 true if all such jobs are lasting ones. Planned for each call's own values.
SELECT count(*) FROM (
  SELECT FROM tickwise.jobs
  WHERE namespace = $1
    AND ($2::text IS NULL OR labels @> $2::jsonb)
    AND ($3::text IS NULL OR schedule_type = $3)
    AND ($4::boolean IS NULL OR lasting)
  LIMIT $5) s
