-- For this transaction: what a search may take, that it is planned for its own values, and takes one core. $1 milliseconds.
SELECT set_config('statement_timeout', $1::text, true), set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('max_parallel_workers_per_gather', '0', true)
