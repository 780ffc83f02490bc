-- How many runs the executors of one name hold. $1 the name.
SELECT count(*) FROM tickwise.runs r JOIN tickwise.executors e ON e.executor = r.holder WHERE e.name = $1;
