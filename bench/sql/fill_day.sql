-- One day of finished runs and their jobs. $1 from, $2 to, $3 how many, $4 lane, $5 definition.
SELECT bench.fill_day($1, $2, $3, $4, $5)
