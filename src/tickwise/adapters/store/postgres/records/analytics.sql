-- name: analytics_sampled
-- The ended runs that match, on $15 percent of the pages of the table, the same ones each time. The parameters as in `analytics_newest`.
-- Runs that are due long after the time in their id, and have that before the window, are not among them.
SELECT run_id, job_id, namespace, state, reason, executor, attempt, due, started, ended, cpu_seconds, memory_bytes
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

-- name: analytics_pages
-- The pages of the tables of ended runs of the days $1 to $2 (as 20261121), and of those that have no day.
SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint / current_setting('block_size')::bigint
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'tickwise.history'::regclass
  AND coalesce(substring(c.relname FROM '\d{8}') BETWEEN $1::text AND $2::text, true)

-- name: analytics_terms
-- For this transaction: limit the time of a look, plan it for its own values, let it use one core and enough memory to group in it, and
-- find jobs by their ids however many there are. $1 milliseconds.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('work_mem', '32MB', true), set_config('jit', 'off', true),
       set_config('enable_seqscan', 'off', true)

-- name: analytics_pages_read
-- The pages that a sample of $1 percent reads, of those with runs of the ids from $2 to below $3.
SELECT count(DISTINCT (h.tableoid, split_part(h.ctid::text, ',', 1)))
FROM tickwise.history h TABLESAMPLE SYSTEM ($1::float4) REPEATABLE (0)
WHERE h.run_id >= $2 AND h.run_id < $3
