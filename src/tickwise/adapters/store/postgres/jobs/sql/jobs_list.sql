-- name: jobs_list
-- Jobs, newest first. $1 namespace, $2 part of the name (as a LIKE pattern), $3 key, $4 labels (all of one of these), $5 statuses, $6
-- schedule type, $7 task kind, $8 owner, $9 and $10 window of next fires, $11 page: places below it, $12 limit, $13 true if all such jobs are lasting
-- ones, $14 a calendar, $15 ids. A job's place is its id, unless it stands in `jobs_placed`. Planned for each call's own values.
(SELECT j.*, l.queue, l.priority, l.requires, j.job_id AS listed, octet_length(j.definition) AS bytes
 FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
 WHERE j.namespace = $1
   AND ($11::uuid IS NULL OR j.job_id < $11)
   AND ($15::uuid[] IS NULL OR j.job_id = ANY($15))
   AND NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0)
   AND ($2::text IS NULL OR lower(j.name) LIKE lower($2))
   AND ($3::text IS NULL OR j.key = $3 AND j.lasting)
   AND ($4::jsonb[] IS NULL OR j.labels_stored @> ANY($4))
   AND ($5::text[] IS NULL OR j.status = ANY($5::text[]))
   -- The conditions by which the rare statuses are found; the view's status decides.
   AND ($5::text[] IS DISTINCT FROM '{PAUSED}' OR j.standing = {JobStanding.PAUSED})
   AND ($5::text[] IS DISTINCT FROM '{CANCELLED}' OR j.standing = {JobStanding.CANCELLED})
   AND ($6::text IS NULL OR j.schedule_type = $6)
   AND ($7::text IS NULL OR j.task_kind = $7)
   AND ($8::text IS NULL OR j.owner = $8)
   AND ($9::float8 IS NULL OR j.next_run_at >= $9)
   AND ($10::float8 IS NULL OR j.next_run_at < $10)
   AND ($13::boolean IS NULL OR j.lasting)
   AND ($14::text IS NULL OR j.job_id = ANY(ARRAY(
     SELECT k.job_id FROM tickwise.jobs_lasting k WHERE k.calendars IS NOT NULL AND k.calendars @> ARRAY[$14::text] AND k.namespace = $1)))
 ORDER BY j.job_id DESC LIMIT $12)
UNION ALL
(SELECT j.*, l.queue, l.priority, l.requires, p.listed, octet_length(j.definition) AS bytes
 FROM tickwise.jobs_placed p
 CROSS JOIN LATERAL (
   SELECT * FROM tickwise.jobs_shown j WHERE j.job_id = p.job_id
     AND ($2::text IS NULL OR lower(j.name) LIKE lower($2))
     AND ($3::text IS NULL OR j.key = $3 AND j.lasting)
     AND ($4::jsonb[] IS NULL OR j.labels_stored @> ANY($4))
     AND ($5::text[] IS NULL OR j.status = ANY($5::text[]))
     -- The conditions by which the rare statuses are found; the view's status decides.
     AND ($5::text[] IS DISTINCT FROM '{PAUSED}' OR j.standing = {JobStanding.PAUSED})
     AND ($5::text[] IS DISTINCT FROM '{CANCELLED}' OR j.standing = {JobStanding.CANCELLED})
     AND ($6::text IS NULL OR j.schedule_type = $6)
     AND ($7::text IS NULL OR j.task_kind = $7)
     AND ($8::text IS NULL OR j.owner = $8)
     AND ($9::float8 IS NULL OR j.next_run_at >= $9)
     AND ($10::float8 IS NULL OR j.next_run_at < $10)
     AND ($13::boolean IS NULL OR j.lasting)
   OFFSET 0) j
 JOIN tickwise.lanes l USING (lane)
 WHERE p.namespace = $1 AND ($11::uuid IS NULL OR p.listed < $11)
   AND ($15::uuid[] IS NULL OR p.job_id = ANY($15))
   -- Rare values have an index.
   AND ($3::text IS NULL OR p.job_id = (SELECT k.job_id FROM tickwise.jobs_lasting k WHERE k.namespace = $1 AND k.key = $3))
   AND ($4::jsonb[] IS NULL OR p.job_id = ANY(ARRAY(SELECT k.job_id FROM tickwise.jobs_lasting k WHERE k.labels @> ANY($4))))
   AND ($5::text[] IS DISTINCT FROM '{PAUSED}' OR p.job_id = ANY(ARRAY(SELECT k.job_id FROM tickwise.jobs_lasting k WHERE k.standing = {JobStanding.PAUSED})))
   AND ($14::text IS NULL OR p.job_id = ANY(ARRAY(
     SELECT k.job_id FROM tickwise.jobs_lasting k WHERE k.calendars IS NOT NULL AND k.calendars @> ARRAY[$14::text] AND k.namespace = $1)))
 ORDER BY p.listed DESC LIMIT $12)
ORDER BY listed DESC LIMIT $12
