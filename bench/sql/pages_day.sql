-- One day of finished runs. $1 from, $2 to, $3 how many, $4 of how many jobs.
SELECT bench.pages_day($1, $2, $3, $4)
