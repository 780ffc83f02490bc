-- How many dead letters there are, counted to $10 at most. The other parameters as in `letters_list`.
SELECT count(*) FROM (
  SELECT FROM (
    SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $2::float8 THEN 'expired'
                                        WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
    FROM tickwise.letters_shown) l
  WHERE namespace = $1
    AND ($3::text[] IS NULL OR status = ANY($3))
    AND ($4::uuid IS NULL OR job_id = $4)
    AND ($5::text IS NULL OR task_kind = $5)
    AND ($6::text IS NULL OR reason = $6)
    AND ($7::float8 IS NULL OR ended_at >= $7)
    AND ($8::float8 IS NULL OR ended_at < $8)
    AND ($9::uuid IS NULL OR run_id < $9)
  LIMIT $10) s
