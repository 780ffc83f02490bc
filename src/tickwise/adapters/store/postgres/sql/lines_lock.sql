-- From now on until this transaction ends nobody else settles a start in the lines of these runs: of their jobs, those of a backfill apart.
-- Always in one order; two
-- lines of one number wait for each other, and the first number spells "line". $1 runs.
SELECT pg_advisory_xact_lock(1818848869, line)
FROM (SELECT DISTINCT hashtext(job_id::text || (trigger = 5)::text) AS line FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY line OFFSET 0) l
