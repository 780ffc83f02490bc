-- How many runs have not ended, and how many timers of one-time jobs wait to become one.
SELECT (SELECT count(*) FROM tickwise.runs) + (SELECT count(*) FROM tickwise.timers WHERE run_id IS NOT NULL);
