-- How many recorded starts the executors of one name have that have not ended. $1 the name.
SELECT count(*) FROM tickwise.runs r JOIN tickwise.executors e ON e.executor = r.holder WHERE e.name = $1 AND r.state = 3;
