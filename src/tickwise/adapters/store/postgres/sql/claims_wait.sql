-- Wait until no claim of this executor is under way on any connection: each holds this row shared. $1 executor.
SELECT FROM tickwise.executors WHERE executor = $1 FOR NO KEY UPDATE
