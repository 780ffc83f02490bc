-- name: jobs_page
-- Jobs as `jobs_shown` has them, of candidates that were read in order: {candidates} gives rows of `jobs`, each with its place. The view looks
-- up the newest run of each job that is over, in every partition; here this is done for jobs that have failed runs alone, which are found
-- together. With very many failed runs it is done for all of them. Planned once.
WITH c AS MATERIALIZED (
{candidates}
),
failed AS MATERIALIZED (
  SELECT h.job_id FROM tickwise.history h
  WHERE h.state::int = {RunState.FAILED} AND h.job_id = ANY(ARRAY(SELECT c.job_id FROM c WHERE NOT c.recurring)::uuid[])
  ORDER BY h.job_id DESC LIMIT 1000
)
SELECT j.job_id, j.namespace, j.name, j.key, j.schedule_type, j.task_kind, j.definition, coalesce(j.labels, '{}') AS labels,
       coalesce(j.owner, j.created_by) AS owner, j.created_by, date_part('epoch', j.created) AS created_at,
       date_part('epoch', j.updated) AS updated_at, j.version, s.status,
       CASE WHEN s.status = 'PAUSED' THEN date_part('epoch', j.paused) END AS paused_at,
       CASE WHEN s.status = 'PAUSED' THEN j.pause_reason END AS pause_reason,
       CASE WHEN s.status = 'PAUSED' THEN date_part('epoch', j.pause_until) END AS pause_until,
       CASE WHEN s.status = 'PAUSED' THEN j.paused_by END AS paused_by,
       date_part('epoch', least(nullif(t.due, 'infinity'), r.due)) AS next_run_at,
       date_part('epoch', t.due) AS timer_due, date_part('epoch', t.since) AS timer_since, t.hold AS timer_hold,
       coalesce(t.fired, 0) AS timer_fired, date_part('epoch', t.minute) AS timer_minute, coalesce(t.in_minute, 0) AS timer_in_minute,
       date_part('epoch', coalesce(j.task_changed, j.updated)) AS task_changed_at, l.queue, l.priority, l.requires, j.listed,
       octet_length(j.definition) AS bytes
FROM c j
LEFT JOIN LATERAL (
  SELECT due, since, hold, fired, minute, in_minute FROM tickwise.timers t WHERE t.job_id = j.job_id OFFSET 0) t ON true
CROSS JOIN LATERAL (
  SELECT count(*) > 0 AS some,
         min(due) FILTER (WHERE state = {RunState.QUEUED} AND (blocked OR ready < 'infinity')
                          OR state = {RunState.DISPATCHED} AND due > (SELECT tickwise.now())) AS due
  FROM tickwise.runs r WHERE r.job_id = j.job_id OFFSET 0) r
CROSS JOIN LATERAL (SELECT CASE
    WHEN j.standing = {JobStanding.CANCELLED} THEN 'CANCELLED'
    WHEN j.standing = {JobStanding.PAUSED} AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now())) THEN 'PAUSED'
    WHEN t.due < 'infinity' OR r.some OR j.schedule_type = 'ON_DEMAND' THEN 'SCHEDULED'
    WHEN NOT j.recurring AND (EXISTS (SELECT FROM failed f WHERE f.job_id = j.job_id) OR EXISTS (SELECT FROM failed OFFSET 999))
      AND (SELECT h.state = {RunState.FAILED} FROM tickwise.history h WHERE h.job_id = j.job_id ORDER BY h.run_id DESC LIMIT 1)
      THEN 'FAILED'
    ELSE 'COMPLETED' END AS status OFFSET 0) s
CROSS JOIN LATERAL (SELECT queue, priority, requires FROM tickwise.lanes l WHERE l.lane = j.lane OFFSET 0) l
ORDER BY listed DESC
