-- How many runs have ended.
SELECT count(*) FROM tickwise.history;
