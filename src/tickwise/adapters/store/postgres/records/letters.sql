-- name: letters_in_order
-- For this transaction: plan a search for its own values, and read in the order of an index. Where conditions depend on each other the
-- planner expects few rows, and would put all of them in order for the first page.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: letters_list
-- Dead letters, newest first by run. $1 namespace, $2 seconds after which an unsettled one is expired, $3 statuses (NULL: any), $4 job,
-- $5 task kind, $6 reason, $7 and $8 window of ends, $9 page: ids below it, $10 limit, $11 jobs, $12 their labels (all of one of
-- these), $13 and $14 whether with the results and the definitions of runs, $15 the group of their error. Planned for each call's own values.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $13::boolean THEN result END AS result, origin,
       CASE WHEN $14::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, job_name, task_kind, settled_at, settled_by, note, redriven_as, ruling, status,
       coalesce(octet_length(error), 0) + coalesce(octet_length(note), 0) + coalesce(CASE WHEN $13 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $14 THEN octet_length(definition) END, 0) AS bytes
FROM (
  SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $2::float8 THEN 'expired'
                                      WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
  FROM tickwise.letters_shown) l
WHERE namespace = $1
  AND ($3::text[] IS NULL OR status = ANY($3))
  AND ($4::uuid IS NULL OR job_id = $4)
  AND ($5::text IS NULL OR task_kind = $5)
  AND ($6::text IS NULL OR reason = $6)
  AND ($7::float8 IS NULL OR ended_at >= $7)
  AND ($8::float8 IS NULL OR ended_at < $8)
  AND ($9::uuid IS NULL OR run_id < $9)
  AND ($11::uuid[] IS NULL OR job_id = ANY($11))
  AND ($12::jsonb[] IS NULL OR EXISTS (SELECT FROM tickwise.jobs j WHERE j.job_id = l.job_id AND j.namespace = $1 AND j.labels @> ANY($12) OFFSET 0))
  AND ($15::uuid IS NULL OR run_id IN (SELECT e.run_id FROM tickwise.error_letters e WHERE e.group_id = $15))
ORDER BY run_id DESC LIMIT $10

-- name: letters_picked
-- The letters of these runs, in this order, as `letters_list` has them. $1 runs, then as there: $2 namespace, $3 seconds, $4 statuses, $5 job, $6 task
-- kind, $7 reason, $8 and $9 window of ends, $10 ids below it, $11 limit, $12 and $13 whether with results and definitions. Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $12::boolean THEN result END AS result, origin,
       CASE WHEN $13::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, job_name, task_kind, settled_at, settled_by, note, redriven_as, ruling, status, place,
       coalesce(octet_length(error), 0) + coalesce(octet_length(note), 0) + coalesce(CASE WHEN $12 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $13 THEN octet_length(definition) END, 0) AS bytes
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (picked, place)
CROSS JOIN LATERAL (
  SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $3::float8 THEN 'expired'
                                      WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
  FROM tickwise.letters_shown WHERE run_id = w.picked AND namespace = $2 OFFSET 0) l
WHERE ($4::text[] IS NULL OR status = ANY($4)) AND ($5::uuid IS NULL OR job_id = $5) AND ($6::text IS NULL OR task_kind = $6)
  AND ($7::text IS NULL OR reason = $7) AND ($8::float8 IS NULL OR ended_at >= $8) AND ($9::float8 IS NULL OR ended_at < $9)
  AND ($10::uuid IS NULL OR run_id < $10)
ORDER BY place LIMIT $11

-- name: letters_count
-- The number of dead letters, counted to $10 at most. $13 the group of their error. The other parameters as in `letters_list`.
SELECT count(*) FROM (
  SELECT FROM (
    SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $2::float8 THEN 'expired'
                                        WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
    FROM tickwise.letters_shown) l
  WHERE namespace = $1
    AND ($3::text[] IS NULL OR status = ANY($3))
    AND ($4::uuid IS NULL OR job_id = $4)
    AND ($5::text IS NULL OR task_kind = $5)
    AND ($6::text IS NULL OR reason = $6)
    AND ($7::float8 IS NULL OR ended_at >= $7)
    AND ($8::float8 IS NULL OR ended_at < $8)
    AND ($9::uuid IS NULL OR run_id < $9)
    AND ($11::uuid[] IS NULL OR job_id = ANY($11))
    AND ($12::jsonb[] IS NULL OR EXISTS (SELECT FROM tickwise.jobs j WHERE j.job_id = l.job_id AND j.namespace = $1 AND j.labels @> ANY($12) OFFSET 0))
    AND ($13::uuid IS NULL OR run_id IN (SELECT e.run_id FROM tickwise.error_letters e WHERE e.group_id = $13))
  LIMIT $10) s

-- name: letter_get
-- One dead letter. $1 namespace, $2 seconds after which an unsettled one is expired, $3 run.
SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $2::float8 THEN 'expired'
                                    WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
FROM tickwise.letters_shown WHERE run_id = $3 AND namespace = $1

-- name: operation_add
-- Store an operation, unless one of its id is there. $1 id, $2 namespace, $3 kind, $4 request, $5 by whom, $6 how many matched,
-- $7, $8 and $9 the key, the person and the owner of the key of the asker.
INSERT INTO tickwise.operations (created, updated, free, operation_id, namespace, kind, request, created_by, matched, asker_key, asker_user, asker_owner)
SELECT at, at, at, $1, $2, $3, $4, $5, $6, $7::uuid, $8::uuid, $9::uuid FROM (SELECT tickwise.now() AS at) clock
ON CONFLICT DO NOTHING

-- name: operation_get
-- One operation. $1 namespace, $2 id.
SELECT operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems,
       asker_key, asker_user, asker_owner
FROM tickwise.operations WHERE operation_id = $2 AND namespace = $1

-- name: operations_list
-- Operations, newest first by id. $1 namespace, $2 page: ids below it, $3 limit, $4 kinds; NULL: all.
SELECT operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems,
       asker_key, asker_user, asker_owner, octet_length(request) + octet_length(problems) AS bytes
FROM tickwise.operations WHERE namespace = $1 AND ($2::uuid IS NULL OR operation_id < $2)
  AND ($4::text[] IS NULL OR kind = ANY($4))
ORDER BY operation_id DESC LIMIT $3

-- name: operation_runs
-- Check that an operation has not ended, and lock it. $1 namespace, $2 id.
SELECT status = 'running' FROM tickwise.operations WHERE operation_id = $2 AND namespace = $1 FOR UPDATE

-- name: operation_cancel
-- Cancel an operation, unless it has ended. $1 namespace, $2 id.
UPDATE tickwise.operations
SET status = CASE status WHEN 'running' THEN 'cancelled' ELSE status END, ended = coalesce(ended, tickwise.now()),
    updated = CASE status WHEN 'running' THEN tickwise.now() ELSE updated END
WHERE operation_id = $2 AND namespace = $1
RETURNING operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems,
       asker_key, asker_user, asker_owner

-- name: operation_take
-- Take, for $1 seconds, the operation that waits longest and that no scheduler has.
UPDATE tickwise.operations
SET free = tickwise.now() + $1::float8 * interval '1 second'
WHERE operation_id = (
  SELECT operation_id FROM tickwise.operations
  WHERE status = 'running' AND free <= (SELECT tickwise.now()) ORDER BY free, operation_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING operation_id, namespace, kind, request, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at, date_part('epoch', ended) AS ended_at, status, matched, cursor, step, done, refused, problems,
       asker_key, asker_user, asker_owner

-- name: operation_step
-- A page of an operation was carried out. $1 id, $2 the step that was expected, $3 where the next page begins (NULL: it was the last), $4
-- done and $5 refused in it, $6 problems, $7 whether it fails with that. One that was cancelled meanwhile keeps the work done. Returns a row if the page is on record, by
-- now or before.
WITH u AS (
  UPDATE tickwise.operations
  SET step = step + 1, cursor = $3::text, done = done + $4::bigint, refused = refused + $5::bigint, problems = $6::text,
      updated = tickwise.now(), free = tickwise.now(),
      status = CASE WHEN $3 IS NULL AND status = 'running' THEN CASE WHEN $7::boolean THEN 'failed' ELSE 'done' END ELSE status END,
      ended = CASE WHEN $3 IS NULL AND status = 'running' THEN tickwise.now() ELSE ended END
  WHERE operation_id = $1 AND step = $2::int AND status NOT IN ('done', 'failed')
  RETURNING true
)
SELECT true FROM u
UNION ALL
SELECT true FROM tickwise.operations
WHERE operation_id = $1 AND step = $2 + 1 AND cursor IS NOT DISTINCT FROM $3 AND problems = $6 AND NOT EXISTS (SELECT FROM u)

-- name: letters_failed
-- Those of these runs that are on record as FAILED, their jobs, and whether their outcome is unknown. $1 namespace, $2 runs.
SELECT h.run_id, h.job_id, h.reason IS NOT DISTINCT FROM 'unknown_outcome' AS held
FROM tickwise.history h WHERE h.run_id = ANY($2::uuid[]) AND h.namespace = $1 AND h.state = {RunState.FAILED}

-- name: completions_add
-- Note that the successors of these runs are to be made. $1 runs, $2 whether their sequence goes by success.
INSERT INTO tickwise.follows (since, run_id, succeeded)
SELECT tickwise.now(), n.run_id, n.succeeded FROM unnest($1::uuid[], $2::boolean[]) AS n(run_id, succeeded)
ON CONFLICT DO NOTHING

-- name: letters_settled
-- The settlements of these letters. $1 runs.
SELECT run_id, status, redriven_as, ruling FROM tickwise.letters WHERE run_id = ANY($1::uuid[])

-- name: letters_settle
-- Settle letters that are not settled yet, always in one order: two transactions that settle the same one wait for each other, and the
-- first one wins. $1 by whom, $2 … one array per column. Returns those.
INSERT INTO tickwise.letters (settled, settled_by, run_id, status, note, redriven_as, ruling)
SELECT tickwise.now(), $1::text, n.run_id, n.status, n.note, n.redriven_as, n.ruling
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[]) AS n(run_id, status, note, redriven_as, ruling)
ORDER BY n.run_id
ON CONFLICT DO NOTHING
RETURNING run_id
