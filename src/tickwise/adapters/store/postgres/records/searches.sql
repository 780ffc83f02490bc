-- name: search_terms
-- For this transaction: limit the time of a search, plan it for its own values, and let it use one core. $1 milliseconds. The wait for a
-- lock ends earlier, so that its error names the lock.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)

-- name: search_terms_of_a_set
-- As `search_terms`, for a statement that reads the rows with a value up to a limit: by the index of that value alone, and not in the order of
-- another index until there are enough. The session has the settings of pages whose plan is kept.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
       set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_hashjoin', 'on', true),
       set_config('enable_mergejoin', 'on', true)

-- name: jobs_labelled
-- The jobs of a namespace that have all labels of one of $2, at most $3 of them. $1 namespace. Planned for each call's own values.
SELECT job_id FROM tickwise.jobs WHERE namespace = $1 AND labels @> ANY($2::jsonb[]) LIMIT $3
