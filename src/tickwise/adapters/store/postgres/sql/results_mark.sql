-- Results are applied up to these numbers. $1 executors, $2 numbers. Of an executor that is not there nothing is kept; no other can go
-- while this looks.
INSERT INTO tickwise.results_applied (executor, number)
SELECT m.executor, m.number
FROM unnest($1::bigint[], $2::bigint[]) m(executor, number) CROSS JOIN LATERAL (
  SELECT FROM tickwise.executors e WHERE e.executor = m.executor FOR KEY SHARE) e
ORDER BY m.executor
ON CONFLICT (executor) DO UPDATE SET number = excluded.number WHERE results_applied.number < excluded.number
