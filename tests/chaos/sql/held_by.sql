-- How many runs an executor holds. $1 its number.
SELECT count(*) FROM tickwise.runs WHERE holder = $1::bigint;
