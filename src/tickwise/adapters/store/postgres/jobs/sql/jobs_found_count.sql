-- name: jobs_found_count
-- The number of jobs, counted to $12 at most. The parameters as in `jobs_found`.
SELECT count(*) FROM (
  SELECT DISTINCT ON (c.job_id) 1
  FROM (
  -- In the order of the ids, and each part by itself too, so that they are merged: a page is full before the rest is read. One that is
  -- found twice comes twice in a row.
  SELECT job_id FROM (
    (SELECT job_id FROM tickwise.timers WHERE 'planned' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.timers WHERE 'due' = ANY($14::text[]) AND run_id IS NOT NULL AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.timers WHERE 'due' = ANY($14::text[]) AND run_id IS NULL AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.runs WHERE 'planned' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.runs
     WHERE 'due' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs_lasting
     WHERE 'planned' = ANY($14::text[]) AND schedule_type = 'ON_DEMAND' AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.history WHERE 'failed' = ANY($14::text[]) AND state::int = {RunState.FAILED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs
     WHERE 'paused' = ANY($14::text[]) AND standing = {JobStanding.PAUSED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs
     WHERE 'cancelled' = ANY($14::text[]) AND standing = {JobStanding.CANCELLED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)) s
  ORDER BY job_id DESC OFFSET 0) c
  CROSS JOIN LATERAL (
    SELECT FROM tickwise.jobs_shown j
    WHERE j.job_id = c.job_id AND j.namespace = $1
    AND ($2::text IS NULL OR lower(j.name) LIKE lower($2))
    AND ($3::text IS NULL OR j.key = $3 AND j.lasting)
    AND ($4::jsonb[] IS NULL OR j.labels_stored @> ANY($4))
    AND ($5::text[] IS NULL OR j.status = ANY($5::text[]))
    AND ($6::text IS NULL OR j.schedule_type = $6)
    AND ($7::text IS NULL OR j.task_kind = $7)
    AND ($8::text IS NULL OR j.owner = $8)
    AND ($9::float8 IS NULL OR j.next_run_at >= $9)
    AND ($10::float8 IS NULL OR j.next_run_at < $10)
    AND ($13::boolean IS NULL OR j.lasting)
    OFFSET 0) j
  ORDER BY c.job_id DESC LIMIT $12) s
