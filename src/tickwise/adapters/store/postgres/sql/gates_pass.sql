-- Runs that were just started pass their gates. $1 runs, $2 the keys of which they have a slot (NULL: none).
UPDATE tickwise.runs r SET limit_key = b.limit_key, place = NULL
FROM unnest($1::uuid[], $2::text[]) AS b(run_id, limit_key)
WHERE r.run_id = ANY($1) AND r.run_id = b.run_id
