-- name: search_terms_kept
-- For this transaction: what a page may take, and that its plan is made once, for all values. Its statement is written for one plan, in
-- the order of an index; what would put rows in order is no plan for it. $1 milliseconds.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)

-- name: search_terms
-- For this transaction: what a search may take, that it is planned for its own values, and takes one core. $1 milliseconds. A lock
-- that is not to be had is told of before they are over, as what it is.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)
