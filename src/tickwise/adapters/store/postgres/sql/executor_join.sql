-- An executor registers, with a lease from now on.
INSERT INTO tickwise.executors (born, lease, lease_seconds, slots, name, queues, labels, functions, results_key)
SELECT at, at + $1::float8 * interval '1 second', $1, $2::int, $3::text, $4::text[], $5::text[], $6::text[], $7::bytea
FROM (SELECT tickwise.now() AS at) clock
RETURNING executor
