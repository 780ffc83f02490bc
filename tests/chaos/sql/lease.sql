-- Until when an executor has a lease. $1 its number.
SELECT date_part('epoch', lease) FROM tickwise.executors WHERE executor = $1::bigint;
