-- name: paces_count
-- Count requests of callers ($1, $2 each) by a pace: $3 seconds between two requests, $4 how many seconds ahead of now a caller may be.
-- Answers how many are let through, and how far ahead the caller is then. Each count locks its row; always in one order, so that two do not
-- deadlock.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS now)
INSERT INTO tickwise.paces AS pace (until, granted, who)
SELECT now + least(wanted, floor($4::float8 / $3::float8 + 0.000001)) * $3 * interval '1 second',
  least(wanted, floor($4 / $3 + 0.000001))::int, who
FROM unnest($1::text[], $2::int[]) AS asked (who, wanted), clock
ORDER BY who
ON CONFLICT (who) DO UPDATE SET (until, granted) = (
  SELECT now + (ahead + let * $3) * interval '1 second', let::int
  FROM clock
  CROSS JOIN LATERAL (SELECT least(greatest(extract(epoch FROM pace.until - now)::float8, 0), $4) AS ahead) AS before
  CROSS JOIN LATERAL (
    SELECT greatest(least(excluded.granted, floor(($4 - ahead) / $3 + 0.000001)), 0) AS let
  ) AS after
)
RETURNING who, granted, greatest(extract(epoch FROM until - (SELECT now FROM clock))::float8, 0) AS ahead
