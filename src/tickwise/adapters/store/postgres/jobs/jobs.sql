-- name: job_get
-- One job with the facts that follow from its timers and runs. $1 namespace, $2 job.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
WHERE j.job_id = $2 AND j.namespace = $1

-- name: job_by_key
-- One job by its key. Keyed jobs are lasting ones, and there the key has its index. $1 namespace, $2 key.
SELECT j.*, l.queue, l.priority, l.requires,
       coalesce((SELECT p.listed FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id), j.job_id) AS listed
FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
WHERE j.job_id = (SELECT job_id FROM tickwise.jobs_lasting WHERE namespace = $1 AND key = $2)

-- name: jobs_newest
-- Candidates of a page (`jobs_page`): the newest jobs of the default namespace, as `jobs_list` has them. Most of all jobs are of it. $1 that
-- namespace, $2 places below it, $3 limit.
SELECT * FROM (
  (SELECT j.*, j.job_id AS listed FROM tickwise.jobs j
   WHERE j.namespace = $1 AND j.job_id < $2
     AND (j.digest IS NULL OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0))
   ORDER BY job_id DESC)
  UNION ALL
  (SELECT j.*, p.listed FROM tickwise.jobs_placed p
   CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs j WHERE j.job_id = p.job_id OFFSET 0) j
   WHERE p.namespace = $1 AND p.listed < $2
   ORDER BY p.listed DESC)) s
ORDER BY listed DESC LIMIT $3

-- name: jobs_newest_of
-- Candidates of a page: the newest jobs of a namespace other than `default`, by its index. The parameters as in `jobs_newest`.
SELECT * FROM (
  (SELECT j.*, j.job_id AS listed FROM tickwise.jobs j
   WHERE j.namespace = $1 AND j.namespace <> 'default' AND j.job_id < $2
     AND (j.digest IS NULL OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0))
   ORDER BY job_id DESC)
  UNION ALL
  (SELECT j.*, p.listed FROM tickwise.jobs_placed p
   CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs j WHERE j.job_id = p.job_id OFFSET 0) j
   WHERE p.namespace = $1 AND p.listed < $2
   ORDER BY p.listed DESC)) s
ORDER BY listed DESC LIMIT $3

-- name: jobs_count
-- The number of jobs, counted to $12 at most. The other parameters as in `jobs_list`.
SELECT count(*) FROM (
  SELECT FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
  WHERE j.namespace = $1
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
    AND ($11::uuid IS NULL OR j.job_id < $11)
    AND ($15::uuid[] IS NULL OR j.job_id = ANY($15))
  LIMIT $12) s

-- name: jobs_alike
-- The number of jobs of a namespace, of a schedule type and with all labels of one of $2, counted to $5 at most. $1 namespace,
-- $3 schedule type, $4 true if all such jobs are lasting ones. Planned for each call's own values.
SELECT count(*) FROM (
  SELECT FROM tickwise.jobs
  WHERE namespace = $1
    AND ($2::jsonb[] IS NULL OR labels @> ANY($2))
    AND ($3::text IS NULL OR schedule_type = $3)
    AND ($4::boolean IS NULL OR lasting)
  LIMIT $5) s
