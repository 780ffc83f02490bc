-- Settle letters that nobody has settled, always in one order: two who settle the same one wait for each other, and the first one wins.
-- $1 by whom, $2 … one array per column. Returns those.
INSERT INTO tickwise.letters (settled, settled_by, run_id, status, note, redriven_as, ruling)
SELECT tickwise.now(), $1::text, n.run_id, n.status, n.note, n.redriven_as, n.ruling
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[]) AS n(run_id, status, note, redriven_as, ruling)
ORDER BY n.run_id
ON CONFLICT DO NOTHING
RETURNING run_id
