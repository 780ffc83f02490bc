-- Record that attempts began, but for those whose overlap is open. $1 executor, $2 runs, $3 tokens, $4 instants. Returns what was
-- not recorded, and the job of what is to be settled (NULL: it is refused); a repeat is recorded.
WITH b AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[]) AS b(run_id, token, started)),
u AS (
  UPDATE tickwise.runs r SET state = 3, started = to_timestamp(b.started)
  FROM b
  WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2 AND r.overlap <= 0
  RETURNING r.run_id
),
again AS (
  SELECT run_id FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = 3 AND (run_id, token) IN (SELECT run_id, token FROM b OFFSET 0)
)
SELECT run_id, (SELECT r.job_id FROM tickwise.runs r
                WHERE r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2 AND r.overlap > 0 OFFSET 0)
FROM b
WHERE run_id NOT IN (SELECT run_id FROM u) AND run_id NOT IN (SELECT run_id FROM again)
