-- From now on until this transaction ends nobody else starts, or wakes, anything with these keys. Always in one order; a row that is
-- there is locked and not written. $1 namespaces, $2 keys (each pair once).
INSERT INTO tickwise.limits AS l (namespace, limit_key)
SELECT n.namespace, n.limit_key FROM unnest($1::text[], $2::text[]) AS n(namespace, limit_key)
ORDER BY n.namespace, n.limit_key
ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false
