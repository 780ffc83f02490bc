-- Runs that were just started do not pass: they wait for a slot of a key, or until their slot under a rate comes. $1 runs, $2 keys (NULL:
-- it does not wait for one), $3 the limits that they said of these, $4 since when they were ready, $5 their slots under a rate (NULL: as
-- it is).
UPDATE tickwise.runs r
SET state = 1, holder = 0, token = 0, claimed = '-infinity', started = '-infinity', attempt = r.attempt - 1, on_unknown = 0,
    limit_key = b.limit_key, place = CASE WHEN b.limit_key IS NOT NULL THEN to_timestamp(b.place) END, most = b.most,
    blocked = b.limit_key IS NOT NULL, slot = coalesce(to_timestamp(b.slot), r.slot),
    ready = CASE WHEN b.limit_key IS NOT NULL THEN 'infinity' ELSE greatest((SELECT tickwise.now()), r.due, to_timestamp(b.slot)) END
FROM unnest($1::uuid[], $2::text[], $3::int[], $4::float8[], $5::float8[]) AS b(run_id, limit_key, most, place, slot)
WHERE r.run_id = ANY($1) AND r.run_id = b.run_id
