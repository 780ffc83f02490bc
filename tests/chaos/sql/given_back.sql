-- How many begun attempts each executor gave back because its lease was over, and when it last did.
SELECT executor, count(*) AS attempts, date_part('epoch', max(ended)) AS at
FROM tickwise.attempts WHERE reason = 'lease_over' GROUP BY executor;
