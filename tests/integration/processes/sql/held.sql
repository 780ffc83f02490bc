-- How many runs the executor of this process holds. $1: the end of its name, `:PID`.
SELECT count(*) FROM tickwise.runs r JOIN tickwise.executors e ON e.executor = r.holder WHERE e.name LIKE '%' || $1;
