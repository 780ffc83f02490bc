-- How many runs the store took from each executor.
SELECT holder, count(DISTINCT run_id) FROM chaos.journal WHERE freed GROUP BY holder;
