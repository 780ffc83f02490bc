-- What gates go by, once this transaction has them locked. $1 and $2 namespaces and keys of limits, $3 and $4 of rates. One row for each:
-- of a limit how much is running, of a rate the last slot that an active run has, and the last start (NULL: none); and the clock in every
-- row.
SELECT n.namespace, n.key, (
         SELECT count(*) FROM tickwise.runs r
         WHERE r.namespace = n.namespace AND r.limit_key = n.key AND NOT r.blocked AND r.state = 3) AS running,
       NULL::float8 AS slot, NULL::float8 AS started, date_part('epoch', tickwise.now()) AS now
FROM unnest($1::text[], $2::text[]) AS n(namespace, key)
UNION ALL
SELECT n.namespace, n.key, NULL, date_part('epoch', (
         SELECT max(w.slot) FROM tickwise.runs w WHERE w.namespace = n.namespace AND w.rate_key = n.key)),
       nullif(date_part('epoch', r.started), '-infinity'), date_part('epoch', tickwise.now())
FROM unnest($3::text[], $4::text[]) AS n(namespace, key)
CROSS JOIN LATERAL (SELECT started FROM tickwise.rates r WHERE r.namespace = n.namespace AND r.rate_key = n.key OFFSET 0) r
