-- Give up a partition of history. $1 name, $2 first id, $3 the id after the last, $4 ends before this are past their time, $5 those
-- of failed runs.
SELECT tickwise.history_retire($1, $2, $3, to_timestamp($4::float8), to_timestamp($5::float8))
