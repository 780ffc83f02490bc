-- The jobs of a namespace that have these labels, at most $3 of them. $1 namespace, $2 labels. Planned for each call's own values.
SELECT job_id FROM tickwise.jobs WHERE namespace = $1 AND labels @> $2::jsonb LIMIT $3
