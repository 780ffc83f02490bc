-- Whether an executor is gone. $1 its number.
SELECT gone IS NOT NULL FROM tickwise.executors WHERE executor = $1::bigint;
