-- name: jobs_objectives
-- Recurring jobs that may have an objective, by id. $1 namespace (NULL: all), $2 ids above it (NULL: all), $3 labels (all of one of these;
-- NULL: any), $4 at most. Planned for each call's own values.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM (
  SELECT o.job_id FROM tickwise.jobs_lasting o
  WHERE o.recurring AND o.definition LIKE '%"objective_start_seconds":%'
    AND ($1::text IS NULL OR o.namespace = $1) AND ($2::uuid IS NULL OR o.job_id > $2)
    AND ($3::jsonb[] IS NULL OR o.labels @> ANY($3))
  ORDER BY o.job_id LIMIT $4) o
CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown s WHERE s.job_id = o.job_id OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY j.job_id
