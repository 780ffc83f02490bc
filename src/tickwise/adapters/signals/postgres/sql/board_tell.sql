-- Put up notes, each for the same time; one of the same kind and name gives way. In one order, so that two who tell of
-- the same do not wait for each other in a circle.
INSERT INTO tickwise.board AS note (until, kind, name, facts)
SELECT (SELECT tickwise.now()) + $4::float8 * interval '1 second', kind, name, facts
FROM unnest($1::text[], $2::text[], $3::text[]) AS told (kind, name, facts)
ORDER BY kind, name
ON CONFLICT (kind, name) DO UPDATE SET until = excluded.until, facts = excluded.facts
