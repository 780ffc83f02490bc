-- When each run was made that was made from $1 until $2, Unix seconds.
SELECT run_id, date_part('epoch', at) AS made FROM chaos.journal
WHERE before = 0 AND at BETWEEN to_timestamp($1) AND to_timestamp($2);
