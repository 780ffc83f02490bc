-- Requests are applied up to these times. $1 partitions, $2 times.
INSERT INTO tickwise.requests_applied (partition, until)
SELECT partition, to_timestamp(until) FROM unnest($1::int[], $2::float8[]) m(partition, until)
ORDER BY partition
ON CONFLICT (partition) DO UPDATE SET until = excluded.until WHERE requests_applied.until < excluded.until
