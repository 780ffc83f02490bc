-- How many keys there are.
SELECT count(*) FROM tickwise.keys
