-- The token of the attempt: the holder alone is left to say whose result it is.
-- from
AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)
-- instead
