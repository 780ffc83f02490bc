-- name: analytics_newest
-- The newest ended runs that match. $1 namespace (NULL: all), $2 job, $3 states, $4 and $5 window of due times, $6 and $7 the ids of that
-- window: below the first only what is due long after the time in its id, $8 triggers, $9 reason, $10 executor, $11 jobs, $12 a part of
-- their name (as a LIKE pattern), $13 their labels (all of one of these), $14 their queue, $15 at most. Planned for each call's own values.
SELECT run_id, job_id, namespace, state, reason, executor, attempt, due, started, ended, cpu_seconds, memory_bytes
FROM (
  (SELECT run_id, job_id, namespace, state, reason, executor, attempt, due, started, ended, cpu_seconds, memory_bytes FROM tickwise.history h
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
  ORDER BY run_id DESC LIMIT $15)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, reason, executor, attempt, due, started, ended, cpu_seconds, memory_bytes FROM tickwise.history h
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
    AND run_id < $6 AND due - nominal > interval '10 minutes'
  ORDER BY run_id DESC LIMIT $15)) s
ORDER BY run_id DESC LIMIT $15
