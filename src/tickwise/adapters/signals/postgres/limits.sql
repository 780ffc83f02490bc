-- name: paces_count
-- Count requests of callers ($1 names, $2 how many, each name once) by their paces: $3 seconds between two requests, $4 how many seconds
-- ahead of now the caller may be. Answers how many are let through, and how far ahead the caller is then. Each count locks its row; always
-- in one order, so that two do not deadlock.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS now)
INSERT INTO tickwise.paces AS pace (until, granted, who)
SELECT now + least(wanted, floor(tolerance / seconds + 0.000001)) * seconds * interval '1 second',
  least(wanted, floor(tolerance / seconds + 0.000001))::int, who
FROM unnest($1::text[], $2::int[], $3::float8[], $4::float8[]) AS asked (who, wanted, seconds, tolerance), clock
ORDER BY who
ON CONFLICT (who) DO UPDATE SET (until, granted) = (
  SELECT now + (ahead + let * seconds) * interval '1 second', let::int
  FROM clock
  CROSS JOIN LATERAL (SELECT array_position($1, excluded.who) AS number) AS found
  CROSS JOIN LATERAL (SELECT ($3::float8[])[number] AS seconds, ($4::float8[])[number] AS tolerance) AS measures
  CROSS JOIN LATERAL (SELECT least(greatest(extract(epoch FROM pace.until - now)::float8, 0), tolerance) AS ahead) AS before
  CROSS JOIN LATERAL (
    SELECT greatest(least(excluded.granted, floor((tolerance - ahead) / seconds + 0.000001)), 0) AS let
  ) AS after
)
RETURNING who, granted, greatest(extract(epoch FROM until - (SELECT now FROM clock))::float8, 0) AS ahead
