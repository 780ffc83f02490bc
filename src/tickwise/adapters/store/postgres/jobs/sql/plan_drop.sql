-- name: plan_drop
-- A job's fires that are yet to come and have not begun give way to a new plan, but for those that are in it too ($2 nominal times):
-- free ones are forgotten, held ones asked back. $1 job. $3: a run that is due more seconds than this after its nominal time was
-- postponed and stays. One that stays is settled anew: the new plan may put others before it. The requests of an earlier
-- plan to give it back (they have no error) are deleted, and those of a pause that is over.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, state, holder, token,
         coalesce(nominal, due) = ANY(ARRAY(SELECT to_timestamp(k) FROM unnest($2::float8[]) k))
           OR coalesce(date_part('epoch', due - nominal) > $3::float8, false) AS kept
  FROM tickwise.runs r
  WHERE job_id = $1 AND trigger = {Trigger.SCHEDULE} AND state IN ({RunState.QUEUED}, {RunState.DISPATCHED}) AND coalesce(nominal, due) > (SELECT at FROM clock)
    AND NOT EXISTS (SELECT FROM tickwise.attempts a WHERE a.run_id = r.run_id)
),
free AS (
  DELETE FROM tickwise.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE state = {RunState.QUEUED} AND NOT kept))
),
opened AS (
  UPDATE tickwise.runs SET overlap = -overlap
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE state = {RunState.QUEUED} AND kept)) AND overlap < 0
),
wanted AS (
  DELETE FROM tickwise.cancel_requests
  WHERE kind <> 'cancel' AND reason IS DISTINCT FROM 'requested' AND run_id = ANY(ARRAY(SELECT run_id FROM o WHERE kept))
    AND CASE WHEN error IS NULL THEN kind = 'revoke'
        ELSE (SELECT standing <> {JobStanding.PAUSED} OR pause_until <= (SELECT at FROM clock) FROM tickwise.jobs WHERE job_id = $1) END
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT (SELECT at FROM clock), token, holder, run_id, 'revoke' FROM o WHERE state = {RunState.DISPATCHED} AND NOT kept
ON CONFLICT (run_id) DO UPDATE
SET kind = 'revoke', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token OR c.kind = 'return' OR c.kind = 'revoke' AND c.reason IS DISTINCT FROM 'requested'
