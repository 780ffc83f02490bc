-- How many runs have not ended.
SELECT count(*) FROM tickwise.runs;
