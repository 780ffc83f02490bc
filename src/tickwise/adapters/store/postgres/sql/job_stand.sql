-- A job's standing: 0 as planned, 1 paused, 2 cancelled. $1 job, $2 standing, $3 reason, $4 until, $5 by whom. A pause of what is
-- paused already, and whose pause is not over by itself, is the same pause; one that says nothing new changes nothing. The key of a
-- cancelled job is free for another.
UPDATE tickwise.jobs
SET standing = $2::smallint, key = CASE WHEN $2::smallint <> 2 THEN key END, version = version + 1, updated = tickwise.now(),
    pause_reason = $3, pause_until = to_timestamp($4::float8), paused_by = $5,
    paused = CASE WHEN $2::smallint = 1 AND standing = 1 AND (pause_until IS NULL OR pause_until > tickwise.now()) THEN paused
                  WHEN $2::smallint = 1 THEN tickwise.now() END
WHERE job_id = $1
  AND (standing, pause_reason, pause_until, paused_by) IS DISTINCT FROM ($2::smallint, $3, to_timestamp($4::float8), $5)
