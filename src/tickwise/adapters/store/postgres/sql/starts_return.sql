-- Attempts that may not begin go back, claimable, as if they had never been claimed. $1 executor, $2 runs, $3 tokens.
UPDATE tickwise.runs
SET holder = 0, token = 0, state = 1, claimed = '-infinity', attempt = attempt - 1,
    ready = greatest((SELECT tickwise.now()), due, slot)
WHERE run_id = ANY($2::uuid[]) AND holder = $1 AND state = 2
  AND (run_id, token) IN (SELECT * FROM unnest($2, $3::bigint[]) OFFSET 0)
