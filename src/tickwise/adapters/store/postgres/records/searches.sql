-- name: search_terms_kept
-- For this transaction: limit the time of a page, and make its plan once, for all values. Its statement is written for one plan, in the
-- order of an index; a plan with a sort is not allowed. $1 milliseconds.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)

-- name: search_terms
-- For this transaction: limit the time of a search, plan it for its own values, and let it use one core. $1 milliseconds. The wait for a
-- lock ends earlier, so that its error names the lock.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)

-- name: search_terms_of_a_set
-- As `search_terms`, for a statement that reads the rows with a value up to a limit: by the index of that value alone, and not in the order of
-- another index until there are enough.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true)

-- name: jobs_labelled
-- The jobs of a namespace that have all labels of one of $2, at most $3 of them. $1 namespace. Planned for each call's own values.
SELECT job_id FROM tickwise.jobs WHERE namespace = $1 AND labels @> ANY($2::jsonb[]) LIMIT $3
