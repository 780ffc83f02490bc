-- From now on until this transaction ends nobody else starts, or wakes, anything with these keys. Always in one order; a row that says
-- the same is locked and not written. $1 namespaces, $2 keys (each pair once), $3 their limits (NULL: as they are).
INSERT INTO tickwise.limits AS l (most, namespace, limit_key)
SELECT coalesce(n.most, 0), n.namespace, n.limit_key
FROM unnest($1::text[], $2::text[], $3::int[]) AS n(namespace, limit_key, most)
ORDER BY n.namespace, n.limit_key
ON CONFLICT (namespace, limit_key) DO UPDATE SET most = excluded.most WHERE excluded.most > 0 AND l.most <> excluded.most
