-- name: search_terms
-- For this transaction: limit the time of a search, plan it for its own values, and let it use one core. $1 milliseconds. The wait for a
-- lock ends earlier, so that its error names the lock.
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', ($1::text::int / 2)::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true)

-- name: jobs_labelled
-- The jobs of a namespace that have all labels of one of $2, at most $3 of them. $1 namespace. Planned for each call's own values.
SELECT job_id FROM tickwise.jobs WHERE namespace = $1 AND labels @> ANY($2::jsonb[]) LIMIT $3
