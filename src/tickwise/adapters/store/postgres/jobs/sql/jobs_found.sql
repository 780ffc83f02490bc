-- name: jobs_found
-- Jobs, newest first, as `jobs_list` has them, but found by marks that only few of them have. $14 names one or several such marks:
-- 'planned', a timer, an active run, or that it runs on demand; 'due', a timer or an active run in a narrow window; 'failed', a failed run;
-- 'paused' and 'cancelled', by how the job stands. A job with any of the marks is looked at. The other parameters as there. Planned for
-- each call's own values: a part whose mark is not named falls away.
SELECT DISTINCT ON (c.listed) j.*, l.queue, l.priority, l.requires, c.listed, octet_length(j.definition) AS bytes
FROM (
  -- In the order of the places, and each part by itself too, so that they are merged: a page is full before the rest is read. One that
  -- is found twice comes twice in a row. A job in `jobs_placed` is found there, and skipped elsewhere.
  SELECT job_id, listed FROM (
    (SELECT job_id, job_id AS listed FROM tickwise.timers WHERE 'planned' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.timers WHERE 'due' = ANY($14::text[]) AND run_id IS NOT NULL AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.timers WHERE 'due' = ANY($14::text[]) AND run_id IS NULL AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.runs WHERE 'planned' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.runs
     WHERE 'due' = ANY($14::text[]) AND ($11::uuid IS NULL OR job_id < $11)
       AND ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.jobs_lasting
     WHERE 'planned' = ANY($14::text[]) AND schedule_type = 'ON_DEMAND' AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.history WHERE 'failed' = ANY($14::text[]) AND state::int = {RunState.FAILED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.jobs
     WHERE 'paused' = ANY($14::text[]) AND standing = {JobStanding.PAUSED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, job_id AS listed FROM tickwise.jobs
     WHERE 'cancelled' = ANY($14::text[]) AND standing = {JobStanding.CANCELLED} AND ($11::uuid IS NULL OR job_id < $11) ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id, listed FROM tickwise.jobs_placed
     WHERE NOT 'due' = ANY($14::text[]) AND namespace = $1 AND ($11::uuid IS NULL OR listed < $11) ORDER BY listed DESC)
    UNION ALL
    (SELECT job_id, listed FROM tickwise.jobs_placed
     WHERE 'due' = ANY($14::text[]) AND namespace = $1 AND ($11::uuid IS NULL OR listed < $11)
       AND job_id = ANY(ARRAY(
         SELECT job_id FROM tickwise.timers WHERE ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10)
         UNION ALL
         SELECT job_id FROM tickwise.runs WHERE ($9::float8 IS NULL OR due >= to_timestamp($9)) AND due < to_timestamp($10)))
     ORDER BY listed DESC)) s
  ORDER BY listed DESC OFFSET 0) c
CROSS JOIN LATERAL (
  SELECT * FROM tickwise.jobs_shown j
  WHERE j.job_id = c.job_id AND j.namespace = $1
    AND (c.listed <> c.job_id OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = c.job_id OFFSET 0))
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
JOIN tickwise.lanes l USING (lane)
ORDER BY listed DESC LIMIT $12
