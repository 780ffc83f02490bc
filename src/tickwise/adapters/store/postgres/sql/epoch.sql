-- The epoch of the store, after a new one has begun if it must. $1 the highest fencing token that this process has seen, $2 why a
-- new one is to begin in any case (NULL: only if it must).
SELECT tickwise.epoch($1::bigint, $2::text)
