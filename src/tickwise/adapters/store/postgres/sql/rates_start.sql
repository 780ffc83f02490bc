-- Under these rates a run has just started. $1 namespaces, $2 keys, $3 instants.
UPDATE tickwise.rates r SET started = greatest(r.started, to_timestamp(n.started))
FROM unnest($1::text[], $2::text[], $3::float8[]) AS n(namespace, rate_key, started)
WHERE r.namespace = n.namespace AND r.rate_key = n.rate_key
