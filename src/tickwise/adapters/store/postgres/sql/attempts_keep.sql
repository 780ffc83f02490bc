-- What an executor holds unbegun under none of the tokens that it knew at an instant, if it was dispatched by then, goes back, as if it
-- had never been claimed. $1 executor, $2 those tokens, $3 that instant. Returns the runs. Reads all of `runs`, which is small; an answer
-- is rarely lost.
UPDATE tickwise.runs
SET holder = 0, token = 0, state = 1, claimed = '-infinity', attempt = attempt - 1, ready = greatest((SELECT tickwise.now()), due, slot)
WHERE run_id = ANY(ARRAY(
    SELECT run_id FROM tickwise.runs
    WHERE holder = $1 AND state = 2 AND claimed <= to_timestamp($3::float8) AND token NOT IN (SELECT unnest($2::bigint[]))
    ORDER BY run_id FOR UPDATE))
RETURNING run_id
