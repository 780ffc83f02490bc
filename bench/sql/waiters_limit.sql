-- Waiting runs that were refused at their start: each waits for a slot of a limit. $1 the key.
UPDATE tickwise.runs
SET blocked = true, ready = 'infinity', limit_key = $1, most = 1, place = due
WHERE state = 1 AND NOT blocked;
