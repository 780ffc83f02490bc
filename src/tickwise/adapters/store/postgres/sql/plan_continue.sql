-- A job is resumed: its postponed runs are claimable at their time, or now. $1 job, $2 a run that is due more seconds than this after
-- its nominal time was postponed.
UPDATE tickwise.runs
SET ready = greatest((SELECT tickwise.now()), due)
WHERE job_id = $1 AND trigger = 1 AND state = 1 AND NOT blocked AND slot IS NULL AND ready > greatest((SELECT tickwise.now()), due)
  AND date_part('epoch', due - nominal) > $2::float8
