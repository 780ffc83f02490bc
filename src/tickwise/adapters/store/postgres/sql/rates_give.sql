-- The last slots that were given, and the last starts. $1 namespaces, $2 keys, $3 slots, $4 starts (NULL: as it is).
UPDATE tickwise.rates r SET slot = coalesce(to_timestamp(n.slot), r.slot), started = coalesce(to_timestamp(n.started), r.started)
FROM unnest($1::text[], $2::text[], $3::float8[], $4::float8[]) AS n(namespace, rate_key, slot, started)
WHERE r.namespace = n.namespace AND r.rate_key = n.rate_key
