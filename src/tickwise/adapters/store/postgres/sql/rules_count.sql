-- How many rules there are.
SELECT count(*) FROM tickwise.rules
