-- Of attempts that may not have been let go, those of which that is not on record either: the refused. A revoked run leaves
-- nothing, so the repeat of that finds nothing. $1 runs, $2 tokens, $3 states (4 or 1), $4 reasons, $5 executor.
-- Scalar subqueries, because the planner may answer EXISTS here by reading a whole table into a hash.
SELECT f.run_id FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::text[]) AS f(run_id, token, state, reason)
WHERE (SELECT count(*) = 0 FROM tickwise.attempts a
       WHERE a.run_id = f.run_id AND a.token = f.token AND a.state = f.state AND a.executor = $5)
  AND NOT CASE f.state
    WHEN 4 THEN false
    ELSE (SELECT count(*) > 0 FROM tickwise.runs r
          WHERE r.run_id = f.run_id AND r.token = f.token AND r.holder = 0 AND r.state = 1)
      OR f.reason IS NOT DISTINCT FROM 'revoked'
         AND (SELECT count(*) = 0 FROM tickwise.runs_shown r WHERE r.run_id = f.run_id) END
