-- name: analytics_sampled
-- The ended runs that match, on $15 percent of the pages of the table, the same ones each time. The parameters as in `analytics_newest`.
-- Runs that are due long after the time in their id, and have that before the window, are not among them.
SELECT run_id, job_id, namespace, state, reason, executor, attempt, due, started, ended
FROM tickwise.history h TABLESAMPLE SYSTEM ($15::float4) REPEATABLE (0)
WHERE ($1::text IS NULL OR namespace = $1)
  AND ($2::uuid IS NULL OR job_id = $2)
  AND ($3::smallint[] IS NULL OR state = ANY($3))
  AND due >= to_timestamp($4::float8) AND due < to_timestamp($5::float8)
  AND run_id < $7
  AND ($8::smallint[] IS NULL OR trigger = ANY($8))
  AND ($9::text IS NULL OR reason = $9)
  AND ($10::bigint IS NULL OR executor = $10)
  AND ($11::uuid[] IS NULL OR job_id = ANY($11))
  AND ($12::text IS NULL AND $13::jsonb[] IS NULL AND $14::text IS NULL OR EXISTS (
    SELECT FROM tickwise.jobs j
    WHERE j.job_id = h.job_id AND j.namespace = h.namespace
      AND ($12::text IS NULL OR lower(j.name) LIKE lower($12))
      AND ($13::jsonb[] IS NULL OR j.labels @> ANY($13))
      AND ($14::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes l WHERE l.namespace = h.namespace AND l.queue = $14))
    OFFSET 0))
  AND run_id >= $6
