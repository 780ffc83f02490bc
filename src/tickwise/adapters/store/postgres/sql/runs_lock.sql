-- These runs stay as they are until this transaction ends. $1 runs.
SELECT FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE
