-- name: rates_lock
-- Lock these rates: until this transaction ends no other one gives slots under them. $1 namespaces, $2 keys (each pair once).
INSERT INTO tickwise.rates AS r (started, namespace, rate_key)
SELECT '-infinity', n.namespace, n.rate_key FROM unnest($1::text[], $2::text[]) AS n(namespace, rate_key)
ORDER BY n.namespace, n.rate_key
ON CONFLICT (namespace, rate_key) DO UPDATE SET started = excluded.started WHERE false

-- name: gates_pass
-- Mark runs that were just started as past their gates. $1 runs, $2 the keys of their slots (NULL: none).
UPDATE tickwise.runs r SET limit_key = b.limit_key, place = NULL
FROM unnest($1::uuid[], $2::text[]) AS b(run_id, limit_key)
WHERE r.run_id = ANY($1) AND r.run_id = b.run_id

-- name: gates_refuse
-- Mark runs whose start was refused as waiting, for a slot of a key, or until their slot under a rate comes. $1 runs, $2 keys (NULL:
-- it does not wait for one), $3 their own limits, $4 since when they were ready, $5 their slots under a rate, $6 that rate (NULL: none).
UPDATE tickwise.runs r
SET state = {RunState.QUEUED}, holder = 0, token = 0, claimed = '-infinity', started = '-infinity', attempt = r.attempt - 1, on_unknown = {OnUnknown.RERUN},
    limit_key = b.limit_key, most = b.most, place = CASE WHEN b.limit_key IS NOT NULL THEN to_timestamp(b.place) END,
    blocked = b.limit_key IS NOT NULL, slot = to_timestamp(b.slot), rate_key = b.rate_key,
    ready = CASE WHEN b.limit_key IS NOT NULL THEN 'infinity' ELSE greatest((SELECT tickwise.now()), r.due, to_timestamp(b.slot)) END
FROM unnest($1::uuid[], $2::text[], $3::int[], $4::float8[], $5::float8[], $6::text[]) AS b(run_id, limit_key, most, place, slot, rate_key)
WHERE r.run_id = ANY($1) AND r.run_id = b.run_id

-- name: rates_start
-- Record that a run has just started under each of these rates. $1 namespaces, $2 keys, $3 instants.
UPDATE tickwise.rates r SET started = greatest(r.started, to_timestamp(n.started))
FROM unnest($1::text[], $2::text[], $3::float8[]) AS n(namespace, rate_key, started)
WHERE r.namespace = n.namespace AND r.rate_key = n.rate_key

-- name: gates_read
-- The facts that gates decide by, after this transaction has locked them. $1 and $2 namespaces and keys of limits, $3 and $4 of rates, $5
-- namespaces with a quota of runs at once, $6 the key of that quota. One row for each: of a limit and of a quota how much is running, of a
-- rate the last slot that an active run has, and the last start (NULL: none); and the clock in every row.
SELECT n.namespace, n.key, (
         SELECT count(*) FROM tickwise.runs r
         WHERE r.namespace = n.namespace AND r.limit_key = n.key AND NOT r.blocked AND r.state = {RunState.RUNNING}) AS running,
       NULL::float8 AS slot, NULL::float8 AS started, date_part('epoch', tickwise.now()) AS now
FROM unnest($1::text[], $2::text[]) AS n(namespace, key)
UNION ALL
SELECT n.namespace, $6::text, tickwise.runs_going(n.namespace), NULL, NULL, date_part('epoch', tickwise.now())
FROM unnest($5::text[]) AS n(namespace)
UNION ALL
SELECT n.namespace, n.key, NULL, date_part('epoch', (
         SELECT max(w.slot) FROM tickwise.runs w WHERE w.namespace = n.namespace AND w.rate_key = n.key)),
       nullif(date_part('epoch', r.started), '-infinity'), date_part('epoch', tickwise.now())
FROM unnest($3::text[], $4::text[]) AS n(namespace, key)
CROSS JOIN LATERAL (SELECT started FROM tickwise.rates r WHERE r.namespace = n.namespace AND r.rate_key = n.key OFFSET 0) r
