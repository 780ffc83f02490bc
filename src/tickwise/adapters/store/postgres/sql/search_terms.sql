-- For this transaction: what a search may take, that it is planned for its own values, and takes one core. $1 milliseconds. A lock
-- that is not to be had is told of before they are over, as what it is.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)
