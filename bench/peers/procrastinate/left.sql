-- Jobs that have not durably ended.
SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')
