-- The last slots that were given. $1 namespaces, $2 keys, $3 slots.
UPDATE tickwise.rates r SET slot = to_timestamp(n.slot)
FROM unnest($1::text[], $2::text[], $3::float8[]) AS n(namespace, rate_key, slot)
WHERE r.namespace = n.namespace AND r.rate_key = n.rate_key
