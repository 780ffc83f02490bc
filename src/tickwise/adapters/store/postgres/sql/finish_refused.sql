-- Of final outcomes that may not have been taken, those that are not on record just so: the refused.
-- $1 runs, $2 tokens, $3 states, $4 executor.
SELECT f.run_id FROM unnest($1::uuid[], $2::bigint[], $3::smallint[]) AS f(run_id, token, state)
WHERE (SELECT h.token = f.token AND h.state = f.state AND h.executor = $4
       FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0) IS DISTINCT FROM true
