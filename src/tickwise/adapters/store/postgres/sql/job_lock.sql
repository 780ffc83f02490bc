-- One job as it is stored, and no other change of it until this transaction ends. $1 namespace, $2 job.
SELECT job_id, name, key, schedule_type, task_kind, definition, lane, coalesce(labels, '{}')::text AS labels,
       coalesce(owner, created_by) AS owner, version, standing, recurring, lasting, coalesce(calendars, '{}') AS calendars,
       pause_reason, paused_by, date_part('epoch', pause_until) AS pause_until,
       standing = 1 AND (pause_until IS NULL OR pause_until > tickwise.now()) AS paused, date_part('epoch', tickwise.now()) AS now
FROM tickwise.jobs WHERE job_id = $2 AND namespace = $1 FOR UPDATE
