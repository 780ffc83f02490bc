-- What is kept of a run. What was returned to be recorded is still returned.
-- from
h AS (
-- until
)
SELECT count(*)
-- instead
h AS (SELECT
