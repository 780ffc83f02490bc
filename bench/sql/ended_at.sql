-- The end of the run $1, in Unix seconds; no row: it is not durable yet.
SELECT date_part('epoch', ended) FROM tickwise.history WHERE run_id = $1
