-- The state of one run, active or ended. $1 run, $2 namespace.
SELECT state FROM tickwise.runs_shown WHERE run_id = $1 AND namespace = $2
