-- Take the rows of all runs of an executor, and keep them until the transaction ends. $1 its number.
SELECT count(*) FROM (SELECT FROM tickwise.runs WHERE holder = $1::bigint FOR UPDATE) held;
