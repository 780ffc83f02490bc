-- What gates go by, once this transaction has them locked. $1 and $2 namespaces and keys of limits, $3 and $4 of rates. One row for each:
-- 'running' and how much is, 'slot' and the last one given (NULL: none); and the clock in every row.
SELECT 'running' AS what, n.namespace, n.key, (
         SELECT count(*) FROM tickwise.runs r
         WHERE r.namespace = n.namespace AND r.limit_key = n.key AND NOT r.blocked AND r.state = 3)::float8 AS value,
       date_part('epoch', tickwise.now()) AS now
FROM unnest($1::text[], $2::text[]) AS n(namespace, key)
UNION ALL
SELECT 'slot', n.namespace, n.key,
       (SELECT nullif(date_part('epoch', r.slot), '-infinity') FROM tickwise.rates r WHERE r.namespace = n.namespace AND r.rate_key = n.key),
       date_part('epoch', tickwise.now())
FROM unnest($3::text[], $4::text[]) AS n(namespace, key)
