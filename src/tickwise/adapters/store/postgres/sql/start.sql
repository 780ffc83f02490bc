-- Record that attempts began, but for those that are to be settled first: their overlap is open, they have a gate, or their queue is
-- on hold (an ordinary start is told of when the task is under way, so a hold is nothing to it).
-- $1 executor, $2 runs, $3 tokens, $4 instants, $5 what becomes of them if they are lost, $6 whether they have a gate.
-- Returns what was not recorded, and if it is to be settled, its line: its job if its overlap is open, else itself (NULL: it is refused).
-- A repeat is recorded. Of whatever key it was woken for, it has no slot yet, and none under a rate any more.
WITH b AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::smallint[], $6::boolean[]) AS b(run_id, token, started, on_unknown, gated)
),
u AS (
  UPDATE tickwise.runs r SET state = 3, started = to_timestamp(b.started), on_unknown = b.on_unknown, limit_key = NULL,
    slot = NULL, rate_key = NULL
  FROM b
  WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2 AND r.overlap <= 0
    AND NOT b.gated AND (NOT r.guarded AND b.on_unknown = 0 OR r.lane NOT IN (SELECT lane FROM tickwise.lanes_held))
  RETURNING r.run_id
),
again AS (
  SELECT run_id FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = 3 AND (run_id, token) IN (SELECT run_id, token FROM b OFFSET 0)
)
SELECT run_id, (SELECT CASE WHEN r.overlap > 0 THEN r.job_id ELSE r.run_id END FROM tickwise.runs r
                WHERE r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2 OFFSET 0)
FROM b
WHERE run_id NOT IN (SELECT run_id FROM u) AND run_id NOT IN (SELECT run_id FROM again)
