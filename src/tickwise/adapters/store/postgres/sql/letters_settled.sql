-- How these letters were settled. $1 runs.
SELECT run_id, status, redriven_as, ruling FROM tickwise.letters WHERE run_id = ANY($1::uuid[])
