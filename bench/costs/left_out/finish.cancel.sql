-- When a cancel was asked for and heard.
-- from
CASE f.state WHEN 7
-- until
FROM d JOIN f
-- instead
NULL, NULL, NULL
