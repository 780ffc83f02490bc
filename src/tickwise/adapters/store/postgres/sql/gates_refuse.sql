-- Runs that were just started do not pass: they wait for a slot of a key, or until their slot under a rate comes. $1 runs, $2 keys (NULL:
-- it does not wait for one), $3 their own limits, $4 since when they were ready, $5 their slots under a rate, and $6 which (NULL: none).
UPDATE tickwise.runs r
SET state = 1, holder = 0, token = 0, claimed = '-infinity', started = '-infinity', attempt = r.attempt - 1, on_unknown = 0,
    limit_key = b.limit_key, most = b.most, place = CASE WHEN b.limit_key IS NOT NULL THEN to_timestamp(b.place) END,
    blocked = b.limit_key IS NOT NULL, slot = to_timestamp(b.slot), rate_key = b.rate_key,
    ready = CASE WHEN b.limit_key IS NOT NULL THEN 'infinity' ELSE greatest((SELECT tickwise.now()), r.due, to_timestamp(b.slot)) END
FROM unnest($1::uuid[], $2::text[], $3::int[], $4::float8[], $5::float8[], $6::text[]) AS b(run_id, limit_key, most, place, slot, rate_key)
WHERE r.run_id = ANY($1) AND r.run_id = b.run_id
