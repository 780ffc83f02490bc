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
