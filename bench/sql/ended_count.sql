-- How many runs came on record.
SELECT count(*) FROM tickwise.history WHERE started IS NOT NULL;
