-- The definition in the run.
-- from
CASE WHEN octet_length(definition) <= 8192 THEN definition END
-- instead
NULL
