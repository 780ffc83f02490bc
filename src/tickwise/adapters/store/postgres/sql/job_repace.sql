-- A job's rate is another one: its free runs have no slot under the old one any more, and are claimable as they are due. $1 job. The caller
-- has locked these runs.
UPDATE tickwise.runs
SET slot = NULL, rate_key = NULL, ready = CASE WHEN blocked THEN ready ELSE greatest((SELECT tickwise.now()), due) END
WHERE job_id = $1 AND holder = 0 AND slot IS NOT NULL
