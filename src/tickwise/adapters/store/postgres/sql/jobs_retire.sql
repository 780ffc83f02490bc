-- Give up a partition of one-time jobs. $1 name, $2 first id, $3 the id after the last.
SELECT tickwise.jobs_retire($1, $2, $3)
