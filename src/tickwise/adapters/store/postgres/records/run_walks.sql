-- name: runs_looked
-- The runs among {candidates} that a search wants, as far as one look goes: rows with `nth` = $3, wanted or not, end it. $1 namespace, $2 ids
-- below it, $3 the most candidates, $4 rows at most, $5 ids above it, $6 states, $7 and $8 window of due times, $9 triggers, $10 origin,
-- $11 reason, $12 executor, $13 to $15 the name (as a LIKE pattern), the labels (all of one of these) and the queue of its job, $16 jobs that it
-- is of none of. {columns} are none, or those of a brief row.
SELECT run_id, nth, wanted{columns} FROM (
  SELECT c.run_id, c.nth{columns}, c.run_id < $2::uuid AND c.run_id > $5::uuid AND c.namespace = $1::text
    AND ($6::smallint[] IS NULL OR c.state = ANY($6))
    AND ($7::float8 IS NULL OR c.due >= to_timestamp($7))
    AND ($8::float8 IS NULL OR c.due < to_timestamp($8))
    AND ($9::smallint[] IS NULL OR c.trigger = ANY($9))
    AND ($10::uuid IS NULL OR c.origin = $10)
    AND ($11::text IS NULL OR c.reason = $11)
    AND ($12::bigint IS NULL OR c.executor = $12)
    AND ($16::uuid[] IS NULL OR c.job_id <> ALL($16))
    AND ($13::text IS NULL AND $14::jsonb[] IS NULL AND $15::text IS NULL OR EXISTS (
      SELECT FROM tickwise.jobs j
      WHERE j.job_id = c.job_id AND j.namespace = $1
        AND ($13::text IS NULL OR lower(j.name) LIKE lower($13))
        AND ($14::jsonb[] IS NULL OR j.labels @> ANY($14))
        AND ($15::text IS NULL OR j.lane = ANY(ARRAY(SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $15)))
      OFFSET 0)) AS wanted
  FROM ({candidates}) c OFFSET 0) l
WHERE wanted OR nth = $3::bigint
LIMIT $4

-- name: runs_in_order
-- The candidates of {source}, by their ids.
SELECT *, row_number() OVER () AS nth FROM (SELECT * FROM ({source}) s ORDER BY run_id DESC LIMIT $3) s

-- name: runs_every
-- A source: all runs.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor, due_at, started_at, ended_at, nominal_at
FROM tickwise.runs_shown
WHERE run_id < $2 AND run_id > $5 ORDER BY run_id DESC

-- name: runs_ended
-- A source: all runs that ended.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) AS executor FROM tickwise.history
WHERE run_id < $2 AND run_id > $5 ORDER BY run_id DESC

-- name: runs_of_namespace
-- A source: the runs of a namespace other than `default`, by its index.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor, due_at, started_at, ended_at, nominal_at
FROM tickwise.runs_shown
WHERE namespace = $1 AND namespace <> 'default' AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC

-- name: runs_of_job
-- A source: the runs of the job $17. Those under way as `runs_newest_of_job` has them.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor, due_at, started_at, ended_at, nominal_at FROM (
  SELECT * FROM tickwise.runs_shown
  WHERE ended_at IS NULL AND run_id = ANY((
    SELECT CASE WHEN (SELECT count(*) <= 1000 FROM (SELECT FROM tickwise.runs WHERE job_id = $17::uuid LIMIT 1001) f)
      THEN ARRAY(SELECT run_id FROM (SELECT run_id FROM tickwise.runs WHERE job_id = $17 OFFSET 0) f
                 WHERE run_id < $2 ORDER BY run_id DESC LIMIT $3)
      ELSE ARRAY(SELECT run_id FROM tickwise.runs WHERE job_id = $17 AND run_id < $2 ORDER BY run_id DESC LIMIT $3) END)::uuid[])
  UNION ALL
  (SELECT * FROM tickwise.runs_shown
   WHERE job_id = $17 AND ended_at IS NOT NULL AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)) s
ORDER BY run_id DESC

-- name: runs_active_of_job
-- A source: the runs of the job $17 that are under way, as `runs_newest_of_job` has them.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor FROM tickwise.runs_shown
WHERE ended_at IS NULL AND run_id > $5 AND run_id = ANY((
  SELECT CASE WHEN (SELECT count(*) <= 1000 FROM (SELECT FROM tickwise.runs WHERE job_id = $17::uuid LIMIT 1001) f)
    THEN ARRAY(SELECT run_id FROM (SELECT run_id FROM tickwise.runs WHERE job_id = $17 OFFSET 0) f
               WHERE run_id < $2 ORDER BY run_id DESC LIMIT $3)
    ELSE ARRAY(SELECT run_id FROM tickwise.runs WHERE job_id = $17 AND run_id < $2 ORDER BY run_id DESC LIMIT $3) END)::uuid[])
ORDER BY run_id DESC

-- name: runs_failed_of_job
-- A source: the failed runs of the job $17, by their index.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) AS executor FROM tickwise.history
WHERE job_id = $17::uuid AND state::int = {RunState.FAILED} AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC

-- name: runs_in_states
-- A source: the runs in the states $6, of which SUCCESS is none; $17 has the names of those that end a run. The ended ones by their index, the
-- others among all that are under way: by the table, unless it is huge or QUEUED ones are asked for, which are many and soon found. An index
-- on the state would make each claim write all indexes anew.
WITH way AS MATERIALIZED (
  SELECT (SELECT bool_and(state <> {RunState.QUEUED}) FROM unnest($6::smallint[]) AS asked(state)) AND pg_relation_size('tickwise.runs') < 500 * 1024 * 1024 AS by_table
)
SELECT * FROM (
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, NULL AS reason, nullif(holder, 0) AS executor FROM tickwise.runs
   WHERE cardinality($6::smallint[]) > cardinality($17::text[]) AND NOT (SELECT by_table FROM way) AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, NULL AS reason, nullif(holder, 0) AS executor FROM tickwise.runs
   WHERE cardinality($6) > cardinality($17) AND (SELECT by_table FROM way) AND state = ANY($6) AND (run_id < $2) IS TRUE AND (run_id > $5) IS TRUE)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) FROM tickwise.history
   WHERE 'FAILED' = ANY($17) AND state = {RunState.FAILED} AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) FROM tickwise.history
   WHERE 'CANCELLED' = ANY($17) AND state = {RunState.CANCELLED} AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) FROM tickwise.history
   WHERE 'SKIPPED' = ANY($17) AND state = {RunState.SKIPPED} AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)) s
ORDER BY run_id DESC

-- name: runs_with_reason
-- A source: the runs with a reason, by their index.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) AS executor FROM tickwise.history
WHERE reason = $11 AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC

-- name: runs_of_origin
-- A source: the runs of an origin: those on record by their index, and all that are under way.
SELECT * FROM (
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, NULL AS reason, nullif(holder, 0) AS executor FROM tickwise.runs
   WHERE run_id < $2 AND run_id > $5 ORDER BY run_id DESC)
  UNION ALL
  (SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, nullif(executor, 0) FROM tickwise.history
   WHERE origin = $10 AND run_id < $2 AND run_id > $5 ORDER BY run_id DESC)) s
ORDER BY run_id DESC

-- name: runs_of_jobs
-- A set: the newest $3 runs of each of the jobs $17; `nth` counts those of one job. Those under way as `runs_newest_of_job` has them.
SELECT r.* FROM unnest($17::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT *, row_number() OVER () AS nth FROM (
    SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor FROM (
      SELECT * FROM tickwise.runs_shown s
      WHERE s.ended_at IS NULL AND s.run_id = ANY((
        SELECT CASE WHEN (SELECT count(*) <= 1000 FROM (SELECT FROM tickwise.runs l WHERE l.job_id = q.job_id LIMIT 1001) f)
          THEN ARRAY(SELECT run_id FROM (SELECT run_id FROM tickwise.runs l WHERE l.job_id = q.job_id OFFSET 0) f
                     WHERE run_id < $2 ORDER BY run_id DESC LIMIT $3)
          ELSE ARRAY(SELECT run_id FROM tickwise.runs l WHERE l.job_id = q.job_id AND run_id < $2 ORDER BY run_id DESC LIMIT $3)
          END)::uuid[])
      UNION ALL
      (SELECT * FROM tickwise.runs_shown s
       WHERE s.job_id = q.job_id AND s.ended_at IS NOT NULL AND s.run_id < $2 AND s.run_id > $5
       ORDER BY run_id DESC LIMIT $3)) s
    ORDER BY run_id DESC LIMIT $3) s) r

-- name: runs_late
-- A set: the runs that are due in the window $7 to $8 long after the time in their id, by their index.
SELECT run_id, job_id, namespace, state, trigger, due, origin, reason, executor FROM tickwise.runs_shown
WHERE late AND ($7::float8 IS NULL OR due >= to_timestamp($7)) AND ($8::float8 IS NULL OR due < to_timestamp($8)) AND run_id < $2 AND run_id > $5

-- name: runs_in_no_order
-- The candidates of {source}.
SELECT *, row_number() OVER () AS nth FROM (SELECT * FROM ({source}) s LIMIT $3) s

-- name: runs_picked
-- These runs in this order, as `runs_list` has them. $1 namespace, $2 runs, $3 states (NULL: any), $4 and $5 whether with results and
-- definitions, $6 limit. Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $4::boolean THEN result END AS result, origin,
       CASE WHEN $5::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $4 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $5 THEN octet_length(definition) END, 0) AS bytes, place
FROM unnest($2::uuid[]) WITH ORDINALITY AS w (picked, place)
CROSS JOIN LATERAL (
  SELECT * FROM tickwise.runs_shown r
  WHERE r.run_id = w.picked AND r.namespace = $1 AND ($3::smallint[] IS NULL OR r.state = ANY($3)) OFFSET 0) r
ORDER BY place LIMIT $6

-- name: queue_is_known
-- True if some job was ever of the queue. $1 namespace, $2 queue.
SELECT EXISTS (SELECT FROM tickwise.lanes WHERE namespace = $1 AND queue = $2)
