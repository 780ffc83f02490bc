-- name: runs_list
-- Runs, newest first by id. $1 namespace, $2 job, $3 states (NULL: any), $4 and $5 window of due times, $6 page: ids below it, $7 limit, $8
-- ids above it, $9 triggers, $10 origin, $11 reason, $12 with $4: below this id only what is due long after the time in its id, $13
-- executor, $14 jobs, $15 a part of their name (as a LIKE pattern), $16 their labels (all of one of these), $17 their queue, $18 ids, $19
-- and $20 whether with results, and with definitions. Planned for each call's own values: NULL conditions fall away, and the rest finds its index.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $19::boolean THEN result END AS result, origin,
       CASE WHEN $20::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $19 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $20 THEN octet_length(definition) END, 0) AS bytes
FROM (
  (SELECT * FROM tickwise.runs_shown r
  WHERE namespace = $1
    AND ($2::uuid IS NULL OR job_id = $2)
    AND ($3::smallint[] IS NULL OR state = ANY($3))
    AND ($4::float8 IS NULL OR due >= to_timestamp($4))
    AND ($5::float8 IS NULL OR due < to_timestamp($5))
    AND ($6::uuid IS NULL OR run_id < $6)
    AND ($18::uuid[] IS NULL OR run_id = ANY($18))
    AND ($8::uuid IS NULL OR run_id > $8)
    AND ($9::smallint[] IS NULL OR trigger = ANY($9))
    AND ($10::uuid IS NULL OR origin = $10)
    AND ($11::text IS NULL OR reason = $11)
    AND ($13::bigint IS NULL OR executor = $13)
    AND ($14::uuid[] IS NULL OR job_id = ANY($14))
    -- Evaluated once, before any run is read: an absent queue has no runs.
    AND ($17::text IS NULL OR EXISTS (SELECT FROM tickwise.lanes WHERE namespace = $1 AND queue = $17 OFFSET 0))
    AND ($15::text IS NULL AND $16::jsonb[] IS NULL AND $17::text IS NULL OR EXISTS (
      SELECT FROM tickwise.jobs j
      WHERE j.job_id = r.job_id AND j.namespace = $1
        AND ($15::text IS NULL OR lower(j.name) LIKE lower($15))
        AND ($16::jsonb[] IS NULL OR j.labels @> ANY($16))
        AND ($17::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $17))
      OFFSET 0))
    AND ($12::uuid IS NULL OR run_id >= $12)
  ORDER BY run_id DESC LIMIT $7)
  UNION ALL
  (SELECT * FROM tickwise.runs_shown r
  WHERE namespace = $1
    AND ($2::uuid IS NULL OR job_id = $2)
    AND ($3::smallint[] IS NULL OR state = ANY($3))
    AND ($4::float8 IS NULL OR due >= to_timestamp($4))
    AND ($5::float8 IS NULL OR due < to_timestamp($5))
    AND ($6::uuid IS NULL OR run_id < $6)
    AND ($18::uuid[] IS NULL OR run_id = ANY($18))
    AND ($8::uuid IS NULL OR run_id > $8)
    AND ($9::smallint[] IS NULL OR trigger = ANY($9))
    AND ($10::uuid IS NULL OR origin = $10)
    AND ($11::text IS NULL OR reason = $11)
    AND ($13::bigint IS NULL OR executor = $13)
    AND ($14::uuid[] IS NULL OR job_id = ANY($14))
    AND ($17::text IS NULL OR EXISTS (SELECT FROM tickwise.lanes WHERE namespace = $1 AND queue = $17 OFFSET 0))
    AND ($15::text IS NULL AND $16::jsonb[] IS NULL AND $17::text IS NULL OR EXISTS (
      SELECT FROM tickwise.jobs j
      WHERE j.job_id = r.job_id AND j.namespace = $1
        AND ($15::text IS NULL OR lower(j.name) LIKE lower($15))
        AND ($16::jsonb[] IS NULL OR j.labels @> ANY($16))
        AND ($17::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $17))
      OFFSET 0))
    AND run_id < $12 AND late
  ORDER BY run_id DESC LIMIT $7)) s
ORDER BY run_id DESC LIMIT $7
