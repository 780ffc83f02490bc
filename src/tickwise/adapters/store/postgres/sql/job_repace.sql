-- A job's rate is another one: its free runs have no slot any more, and are claimable as they are due. Where the rate is the job's
-- own, its next slot follows the last start, or the last slot that a held run has. $1 job, $2 namespace.
-- The caller has locked these runs; the rate's row is locked after them, as at a start.
WITH u AS (
  UPDATE tickwise.runs
  SET slot = NULL, ready = CASE WHEN blocked THEN ready ELSE greatest((SELECT tickwise.now()), due) END
  WHERE job_id = $1 AND holder = 0 AND slot IS NOT NULL
)
UPDATE tickwise.rates
SET slot = greatest(started, (SELECT max(r.slot) FROM tickwise.runs r WHERE r.job_id = $1 AND r.holder <> 0))
WHERE namespace = $2 AND rate_key = 'job:' || $1::uuid
