-- name: runs_count
-- The number of runs, counted to $7 at most. The other parameters as in `runs_list`.
SELECT count(*) FROM (
  (SELECT FROM tickwise.runs_shown r
  WHERE namespace = $1
    AND ($2::uuid IS NULL OR job_id = $2)
    AND ($3::smallint[] IS NULL OR state = ANY($3))
    AND ($4::float8 IS NULL OR due >= to_timestamp($4))
    AND ($5::float8 IS NULL OR due < to_timestamp($5))
    AND ($6::uuid IS NULL OR run_id < $6)
    AND ($18::uuid[] IS NULL OR run_id = ANY($18))
    AND ($8::uuid IS NULL OR run_id > $8)
    AND ($9::smallint[] IS NULL OR trigger = ANY($9))
    AND ($10::uuid IS NULL OR origin = $10)
    AND ($11::text IS NULL OR reason = $11)
    AND ($13::bigint IS NULL OR executor = $13)
    AND ($14::uuid[] IS NULL OR job_id = ANY($14))
    -- Evaluated once, before any run is read: an absent queue has no runs.
    AND ($17::text IS NULL OR EXISTS (SELECT FROM tickwise.lanes WHERE namespace = $1 AND queue = $17 OFFSET 0))
    AND ($15::text IS NULL AND $16::jsonb[] IS NULL AND $17::text IS NULL OR EXISTS (
      SELECT FROM tickwise.jobs j
      WHERE j.job_id = r.job_id AND j.namespace = $1
        AND ($15::text IS NULL OR lower(j.name) LIKE lower($15))
        AND ($16::jsonb[] IS NULL OR j.labels @> ANY($16))
        AND ($17::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $17))
      OFFSET 0))
    AND ($12::uuid IS NULL OR run_id >= $12)
  LIMIT $7)
  UNION ALL
  (SELECT FROM tickwise.runs_shown r
  WHERE namespace = $1
    AND ($2::uuid IS NULL OR job_id = $2)
    AND ($3::smallint[] IS NULL OR state = ANY($3))
    AND ($4::float8 IS NULL OR due >= to_timestamp($4))
    AND ($5::float8 IS NULL OR due < to_timestamp($5))
    AND ($6::uuid IS NULL OR run_id < $6)
    AND ($18::uuid[] IS NULL OR run_id = ANY($18))
    AND ($8::uuid IS NULL OR run_id > $8)
    AND ($9::smallint[] IS NULL OR trigger = ANY($9))
    AND ($10::uuid IS NULL OR origin = $10)
    AND ($11::text IS NULL OR reason = $11)
    AND ($13::bigint IS NULL OR executor = $13)
    AND ($14::uuid[] IS NULL OR job_id = ANY($14))
    AND ($17::text IS NULL OR EXISTS (SELECT FROM tickwise.lanes WHERE namespace = $1 AND queue = $17 OFFSET 0))
    AND ($15::text IS NULL AND $16::jsonb[] IS NULL AND $17::text IS NULL OR EXISTS (
      SELECT FROM tickwise.jobs j
      WHERE j.job_id = r.job_id AND j.namespace = $1
        AND ($15::text IS NULL OR lower(j.name) LIKE lower($15))
        AND ($16::jsonb[] IS NULL OR j.labels @> ANY($16))
        AND ($17::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes WHERE namespace = $1 AND queue = $17))
      OFFSET 0))
    AND run_id < $12 AND late
  LIMIT $7)
  LIMIT $7) s
