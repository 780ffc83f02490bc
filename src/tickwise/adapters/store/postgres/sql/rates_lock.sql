-- From now on until this transaction ends nobody else is given a slot under these rates. $1 namespaces, $2 keys (each pair once).
INSERT INTO tickwise.rates AS r (started, namespace, rate_key)
SELECT '-infinity', n.namespace, n.rate_key FROM unnest($1::text[], $2::text[]) AS n(namespace, rate_key)
ORDER BY n.namespace, n.rate_key
ON CONFLICT (namespace, rate_key) DO UPDATE SET started = excluded.started WHERE false
