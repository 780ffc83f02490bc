-- name: requests_mark
-- Record the times up to which requests are applied. $1 partitions, $2 times.
INSERT INTO tickwise.requests_applied (partition, until)
SELECT partition, to_timestamp(until) FROM unnest($1::int[], $2::float8[]) m(partition, until)
ORDER BY partition
ON CONFLICT (partition) DO UPDATE SET until = excluded.until WHERE requests_applied.until < excluded.until

-- name: requests_marked
-- The times up to which requests are applied. $1 partitions.
SELECT partition, date_part('epoch', until) FROM tickwise.requests_applied WHERE partition = ANY($1::int[])

-- name: results_mark
-- Results are applied up to these numbers. $1 executors, $2 numbers. Nothing is kept of an absent executor; none can be removed while this
-- looks.
INSERT INTO tickwise.results_applied (executor, number)
SELECT m.executor, m.number
FROM unnest($1::bigint[], $2::bigint[]) m(executor, number) CROSS JOIN LATERAL (
  SELECT FROM tickwise.executors e WHERE e.executor = m.executor FOR KEY SHARE) e
ORDER BY m.executor
ON CONFLICT (executor) DO UPDATE SET number = excluded.number WHERE results_applied.number < excluded.number

-- name: results_marked
-- The numbers up to which the results of executors are applied. $1 executors.
SELECT executor, number FROM tickwise.results_applied WHERE executor = ANY($1::bigint[])

-- name: run_get
-- One run, active or ended. $1 run, $2 namespace.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, result, origin, definition, nominal_at, blocked, limit_key, paced,
       cancel_asked, cancel_heard, cancel_error, occurrences, until
FROM tickwise.runs_shown WHERE run_id = $1 AND namespace = $2

-- name: run_attempts
-- Every attempt of a run: those that did not end it, and the one that did or that is under way. $1 run.
SELECT attempt, token, executor, state, date_part('epoch', claimed) AS dispatched_at, date_part('epoch', started) AS started_at,
       date_part('epoch', ended) AS ended_at, reason, error, cpu_seconds, memory_bytes, output_bytes, read_bytes, written_bytes,
       network_bytes, work_bytes, image
FROM tickwise.attempts WHERE run_id = $1
UNION ALL
SELECT attempt, token, executor, state, dispatched_at, started_at, ended_at, reason, error, h.cpu_seconds, h.memory_bytes, h.output_bytes,
       h.read_bytes, h.written_bytes, h.network_bytes, h.work_bytes, h.image
FROM tickwise.runs_shown r
LEFT JOIN LATERAL (
  SELECT cpu_seconds, memory_bytes, output_bytes, read_bytes, written_bytes, network_bytes, work_bytes, image FROM tickwise.history h
  WHERE h.run_id = r.run_id OFFSET 0) h ON true
WHERE r.run_id = $1 AND executor IS NOT NULL
ORDER BY token

-- name: runs_tally
-- The number of runs that were recorded in each hour, by final state. $1 namespace (NULL: all), $2 and $3 hours from and before, $4 at
-- most.
SELECT date_part('epoch', hour) AS hour, state, sum(runs)::bigint AS runs
FROM (
  SELECT hour, state, runs FROM tickwise.tallies
  WHERE ($1::text IS NULL OR namespace = $1) AND hour >= to_timestamp($2::float8) AND hour < to_timestamp($3::float8)
  UNION ALL
  SELECT hour, state, runs FROM tickwise.tallies_new
  WHERE ($1::text IS NULL OR namespace = $1) AND hour >= to_timestamp($2::float8) AND hour < to_timestamp($3::float8)) t
GROUP BY hour, state ORDER BY hour, state LIMIT $4

-- name: incident_add
-- Store an incident. $1 kind, $2 begin, $3 end, $4 its reporter.
INSERT INTO tickwise.incidents (kind, began, ended, who) VALUES ($1, to_timestamp($2::float8), to_timestamp($3::float8), $4)
ON CONFLICT DO NOTHING

-- name: incidents_list
-- The incidents between two instants, oldest first. $1 and $2 the instants, $3 at most.
SELECT kind, date_part('epoch', began) AS begin, date_part('epoch', ended) AS end, who
FROM tickwise.incidents WHERE began <= to_timestamp($2::float8) AND ended >= to_timestamp($1::float8)
ORDER BY began, kind, who LIMIT $3

-- name: runs_newest_of_job
-- The newest runs of a job. $1 namespace, $2 ids below it, $3 limit, $4 job, $5 and $6 whether with results, and with definitions. Planned
-- once. Of those under way, few of a job are sorted, and many are read from the newest on: in the order of all runs, few would be looked
-- for through everything that has just gone from this table.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $5::boolean THEN result END AS result, origin,
       CASE WHEN $6::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $5 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $6 THEN octet_length(definition) END, 0) AS bytes
FROM (
  SELECT * FROM tickwise.runs_shown
  WHERE namespace = $1 AND ended_at IS NULL AND run_id = ANY((
    SELECT CASE WHEN (SELECT count(*) <= 1000 FROM (SELECT FROM tickwise.runs WHERE job_id = $4 LIMIT 1001) f)
      THEN ARRAY(SELECT run_id FROM (SELECT run_id FROM tickwise.runs WHERE job_id = $4 OFFSET 0) f
                 WHERE run_id < $2 ORDER BY run_id DESC LIMIT $3)
      ELSE ARRAY(SELECT run_id FROM tickwise.runs WHERE job_id = $4 AND run_id < $2 ORDER BY run_id DESC LIMIT $3) END)::uuid[])
  UNION ALL
  (SELECT * FROM tickwise.runs_shown
   WHERE namespace = $1 AND job_id = $4 AND ended_at IS NOT NULL AND run_id < $2
   ORDER BY run_id DESC LIMIT $3)) s
ORDER BY run_id DESC LIMIT $3

-- name: runs_newest
-- The newest runs of the default namespace: most of all runs are. $1 that namespace, $2 ids below it, $3 limit, $4 and $5 whether with
-- results, and with definitions. Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $4::boolean THEN result END AS result, origin,
       CASE WHEN $5::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $4 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $5 THEN octet_length(definition) END, 0) AS bytes
FROM tickwise.runs_shown
WHERE namespace = $1 AND run_id < $2
ORDER BY run_id DESC LIMIT $3

-- name: runs_newest_failed
-- The newest runs of the default namespace that failed for good, by the index of what did not succeed. The parameters as in `runs_newest`.
-- Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $4::boolean THEN result END AS result, origin,
       CASE WHEN $5::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $4 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $5 THEN octet_length(definition) END, 0) AS bytes
FROM tickwise.runs_shown
WHERE namespace = $1 AND state = {RunState.FAILED} AND run_id < $2
ORDER BY run_id DESC LIMIT $3

-- name: runs_newest_of
-- The newest runs of another namespace: they have an index. The parameters as in `runs_newest`. Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, CASE WHEN $4::boolean THEN result END AS result, origin,
       CASE WHEN $5::boolean THEN definition END AS definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
       cancel_error, occurrences, until, coalesce(octet_length(error), 0) + coalesce(CASE WHEN $4 THEN octet_length(result) END, 0)
         + coalesce(CASE WHEN $5 THEN octet_length(definition) END, 0) AS bytes
FROM tickwise.runs_shown
WHERE namespace = $1 AND namespace <> 'default' AND run_id < $2
ORDER BY run_id DESC LIMIT $3

-- name: requests_of
-- The requests to the holders of these runs. $1 runs.
SELECT c.run_id, date_part('epoch', c.asked) AS asked_at, date_part('epoch', c.heard) AS heard_at, c.error
FROM tickwise.cancel_requests c
WHERE c.run_id = ANY($1::uuid[]) AND c.kind <> 'return'
  AND (SELECT r.holder = c.holder AND r.token = c.token FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0)

-- name: stats_timers
-- The number of timers, and by how much the earliest is late. $1 pages are read at most: a larger table is sampled, and its number is the
-- server's own, or while that has none, as much larger as the table is. Up to 1,000 timers are counted by their index, however large the table
-- is: rows that went a moment ago leave it large, and a sample of few rows says nothing.
WITH size AS MATERIALIZED (
  SELECT pg_relation_size('tickwise.timers') / current_setting('block_size')::float8 AS timers
),
few_timers AS MATERIALIZED (SELECT count(*) AS seen FROM (SELECT FROM tickwise.timers ORDER BY job_id LIMIT 1001) f),
known AS MATERIALIZED (SELECT seen <= 1000 AS timers FROM few_timers),
t AS (
  SELECT count(*) AS seen, pg_stat_get_live_tuples('tickwise.timers'::regclass) AS live
  FROM tickwise.timers TABLESAMPLE SYSTEM (least(100, 100 * $1 * current_setting('block_size')::float8 / greatest(1, pg_relation_size('tickwise.timers'))))
  REPEATABLE (0)
  WHERE NOT (SELECT timers FROM known)
)
SELECT
  CASE WHEN (SELECT timers FROM known) THEN (SELECT seen FROM few_timers)
    WHEN size.timers <= $1 THEN t.seen WHEN t.live > t.seen THEN t.live ELSE (t.seen * size.timers / $1)::bigint END AS timers,
  greatest(0, date_part('epoch', tickwise.now() - least(
    (SELECT due FROM tickwise.timers WHERE run_id IS NOT NULL AND due < 'infinity' ORDER BY due LIMIT 1),
    (SELECT due FROM tickwise.timers WHERE run_id IS NULL AND due < 'infinity' ORDER BY due LIMIT 1)))) AS timers_late_seconds
FROM t, size
