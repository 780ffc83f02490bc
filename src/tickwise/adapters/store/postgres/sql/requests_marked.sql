-- The earliest time up to which the requests of each partition are applied; NULL while of one nothing is known. $1 how many there are.
SELECT CASE WHEN count(*) = $1::int THEN date_part('epoch', min(until)) END FROM tickwise.requests_applied WHERE partition < $1
