-- Those of these runs that nobody else has in hand are ours until the transaction ends. $1 runs.
SELECT run_id FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE SKIP LOCKED
