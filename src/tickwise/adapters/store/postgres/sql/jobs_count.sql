-- How many jobs there are, counted to $12 at most. The other parameters as in `jobs_list`.
SELECT count(*) FROM (
  SELECT FROM tickwise.jobs_shown j JOIN tickwise.lanes l USING (lane)
  WHERE j.namespace = $1
    AND ($2::text IS NULL OR lower(j.name) LIKE lower($2))
    AND ($3::text IS NULL OR j.key = $3 AND j.lasting)
    AND ($4::text IS NULL OR j.labels_stored @> $4::jsonb)
    AND ($5::text[] IS NULL OR j.status = ANY($5::text[]))
    -- What the rare statuses need to be found by; the view's status has the last word.
    AND ($5::text[] IS DISTINCT FROM '{PAUSED}' OR j.standing = 1)
    AND ($5::text[] IS DISTINCT FROM '{CANCELLED}' OR j.standing = 2)
    AND ($6::text IS NULL OR j.schedule_type = $6)
    AND ($7::text IS NULL OR j.task_kind = $7)
    AND ($8::text IS NULL OR j.owner = $8)
    AND ($9::float8 IS NULL OR j.next_run_at >= $9)
    AND ($10::float8 IS NULL OR j.next_run_at < $10)
    AND ($13::boolean IS NULL OR j.lasting)
    AND ($11::uuid IS NULL OR j.job_id < $11)
  LIMIT $12) s
