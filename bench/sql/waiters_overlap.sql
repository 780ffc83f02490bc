-- Waiting runs that were refused at their start: each waits for the run before it. The first may begin.
UPDATE tickwise.runs
SET blocked = true, ready = 'infinity'
WHERE state = 1 AND NOT blocked AND run_id <> (SELECT run_id FROM tickwise.runs ORDER BY due, run_id LIMIT 1);
