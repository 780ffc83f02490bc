-- What these executors hold, at most $2. $1 executors. Reads all of `runs`, which is small; nobody dies often.
SELECT run_id, holder FROM tickwise.runs WHERE holder = ANY($1::bigint[]) ORDER BY run_id LIMIT $2
