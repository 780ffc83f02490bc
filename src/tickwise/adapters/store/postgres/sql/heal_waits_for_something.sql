-- A run that waits is claimable; at its start it is settled again. $1 run.
UPDATE tickwise.runs SET blocked = false, ready = greatest((SELECT tickwise.now()), due) WHERE run_id = $1 AND blocked
