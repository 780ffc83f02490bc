-- Runs that are about to end, and whose end starts others: that is to do. $1 executor, $2 runs, $3 tokens, $4 whether they succeeded.
-- What ended before is left alone: its followers may have been made.
INSERT INTO tickwise.follows (since, run_id, succeeded)
SELECT tickwise.now(), r.run_id, f.succeeded
FROM (SELECT run_id, token FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) AND holder = $1 FOR UPDATE) r
JOIN unnest($2, $3::bigint[], $4::boolean[]) AS f(run_id, token, succeeded) ON f.run_id = r.run_id AND f.token = r.token
ON CONFLICT DO NOTHING
