-- How many timers and unfinished runs there are.
SELECT (SELECT count(*) FROM tickwise.runs) + (SELECT count(*) FROM tickwise.timers);
