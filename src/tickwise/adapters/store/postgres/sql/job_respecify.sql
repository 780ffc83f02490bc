-- A job's living runs wait in its lane and are run by its definition, unless they have their own. $1 job, $2 lane, $3 definition.
-- One that waits for a slot asks again: the definition may say otherwise by now. Under a rate this is so only if the rate is the job's
-- own: it goes on from its last start, and gives all later slots anew. Among others a run would lose its place.
WITH anew AS (
  UPDATE tickwise.rates r SET slot = r.started
  WHERE r.namespace = (SELECT namespace FROM tickwise.jobs WHERE job_id = $1) AND r.rate_key = 'job:' || $1::uuid AND r.slot > r.started
  RETURNING true
)
UPDATE tickwise.runs
SET lane = $2, spec = CASE WHEN own THEN spec WHEN octet_length($3::text) <= 8192 THEN $3 END,
    blocked = blocked AND limit_key IS NULL,
    ready = CASE WHEN blocked AND limit_key IS NOT NULL OR holder = 0 AND NOT blocked AND slot IS NOT NULL AND (SELECT true FROM anew)
                 THEN greatest((SELECT tickwise.now()), due) ELSE ready END,
    slot = CASE WHEN holder = 0 AND (SELECT true FROM anew) THEN NULL ELSE slot END
WHERE job_id = $1
