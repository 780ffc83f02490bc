-- A page of an operation was carried out. $1 id, $2 the step that was expected, $3 where the next page begins (NULL: it was the last), $4 done
-- and $5 refused in it, $6 problems. One that was cancelled meanwhile keeps what was done. A row if it is on record, by now or before.
WITH u AS (
  UPDATE tickwise.operations
  SET step = step + 1, cursor = $3::text, done = done + $4::bigint, refused = refused + $5::bigint, problems = $6::text,
      updated = tickwise.now(), free = tickwise.now(),
      status = CASE WHEN $3 IS NULL AND status = 'running' THEN 'done' ELSE status END,
      ended = CASE WHEN $3 IS NULL AND status = 'running' THEN tickwise.now() ELSE ended END
  WHERE operation_id = $1 AND step = $2::int AND status <> 'done'
  RETURNING true
)
SELECT true FROM u
UNION ALL
SELECT true FROM tickwise.operations
WHERE operation_id = $1 AND step = $2 + 1 AND cursor IS NOT DISTINCT FROM $3 AND problems = $6 AND NOT EXISTS (SELECT FROM u)
