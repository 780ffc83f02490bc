-- How many runs have not ended, how many timers of one-time jobs wait to become one, and how many ends start others.
SELECT (SELECT count(*) FROM tickwise.runs) + (SELECT count(*) FROM tickwise.timers WHERE run_id IS NOT NULL)
       + (SELECT count(*) FROM tickwise.follows);
