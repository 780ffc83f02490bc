-- What each run answered, in the order of its due time.
SELECT extract(epoch FROM due)::float8 AS due, result FROM tickwise.history ORDER BY due;
