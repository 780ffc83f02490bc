-- An executor has not been heard of for a while. $1 its number.
UPDATE tickwise.executors SET lease = now() - interval '1 second', lease_seconds = 1 WHERE executor = $1::bigint;
