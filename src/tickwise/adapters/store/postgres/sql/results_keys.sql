-- The keys by which the published results of executors are verified. $1 executors.
SELECT executor, results_key FROM tickwise.executors WHERE executor = ANY($1::bigint[])
