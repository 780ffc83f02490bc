-- Take away what a measurement left, so that the next one finds what was built; ids from $1 on.
WITH h AS (DELETE FROM tickwise.history WHERE run_id >= $1), r AS (DELETE FROM tickwise.runs)
DELETE FROM tickwise.jobs WHERE job_id >= $1;
