-- A job's active runs wait in its lane and are run by its definition, unless they have their own. $1 job, $2 lane, $3 definition.
-- A fire that may run beside others (overlap 0) is settled so: those that the new definition has wait for each other, and for it.
-- One that waits for a slot of a limit asks again: the definition may say otherwise by now.
UPDATE tickwise.runs
SET lane = $2, overlap = CASE WHEN overlap = 0 AND trigger = 1 THEN -3 ELSE overlap END, spec = CASE WHEN own THEN spec WHEN octet_length($3::text) <= 8192 THEN $3 END,
    blocked = blocked AND limit_key IS NULL,
    ready = CASE WHEN blocked AND limit_key IS NOT NULL THEN greatest((SELECT tickwise.now()), due) ELSE ready END
WHERE job_id = $1
