-- Whether each occurrence of jobs that fire every ten seconds is on record once, as a run that went well at its first attempt,
-- and how late those of the measured part began. $1 jobs, $2 the first occurrence of each, $3 begin, $4 where the measured part
-- begins, $5 end; instants in Unix seconds. What is expected is worked out here, from nothing that the product wrote.
WITH expected AS MATERIALIZED (
  SELECT job_id, round((first + 10 * n) * 1000000)::bigint AS at
  FROM unnest($1::uuid[], $2::float8[]) AS j(job_id, first), generate_series(0, ($5::float8 - $3::float8)::int / 10 - 1) AS n
),
made AS MATERIALIZED (
  SELECT job_id, round(extract(epoch FROM coalesce(nominal, due)) * 1000000)::bigint AS at, state, attempt,
         extract(epoch FROM started - due)::float8 * 1000 AS late
  FROM tickwise.history
  WHERE coalesce(nominal, due) >= to_timestamp($3) AND coalesce(nominal, due) < to_timestamp($5)
)
SELECT (SELECT count(*) FROM expected) AS expected,
       (SELECT count(*) FROM made WHERE state = 5) AS ran,
       (SELECT count(*) FROM expected LEFT JOIN made USING (job_id, at) WHERE made.job_id IS NULL) AS missed,
       (SELECT count(*) FROM made LEFT JOIN expected USING (job_id, at) WHERE expected.job_id IS NULL) AS unexpected,
       (SELECT count(*) - count(DISTINCT (job_id, at)) FROM made) + (SELECT count(*) FROM made WHERE attempt <> 1)
         + (SELECT count(*) FROM tickwise.attempts) AS twice,
       (SELECT count(*) FROM made WHERE state <> 5) AS not_success,
       (SELECT count(*) FROM made WHERE late < 0) AS early,
       (SELECT percentile_cont(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY late) FROM made
        WHERE at >= $4::float8 * 1000000) AS late,
       (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY late) FROM made
        WHERE at >= $4 * 1000000 AND at < ($4 + 10) * 1000000) AS p99_first,
       (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY late) FROM made WHERE at >= ($5 - 10) * 1000000) AS p99_last
