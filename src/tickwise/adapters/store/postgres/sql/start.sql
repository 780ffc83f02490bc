-- Record that attempts began. $1 executor, $2 runs, $3 tokens, $4 instants. Returns the refused; a repeat is not.
WITH b AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[]) AS b(run_id, token, started)),
u AS (
  UPDATE tickwise.runs r SET state = 3, started = to_timestamp(b.started)
  FROM b
  WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2
  RETURNING r.run_id
),
again AS (
  SELECT run_id FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = 3 AND (run_id, token) IN (SELECT run_id, token FROM b OFFSET 0)
)
SELECT run_id FROM b
WHERE run_id NOT IN (SELECT run_id FROM u) AND run_id NOT IN (SELECT run_id FROM again)
