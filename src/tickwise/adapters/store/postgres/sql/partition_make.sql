-- Make a partition. $1 parent, $2 name, $3 first id, $4 the id after the last.
SELECT tickwise.partition_make($1, $2, $3, $4)
