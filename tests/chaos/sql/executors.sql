-- Every executor that ever was.
SELECT executor, name, date_part('epoch', born) AS born, date_part('epoch', lease) AS lease, date_part('epoch', gone) AS gone
FROM tickwise.executors ORDER BY executor;
