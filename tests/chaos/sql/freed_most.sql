-- How many runs the store took from executors.
SELECT count(DISTINCT run_id) FROM chaos.journal WHERE freed;
