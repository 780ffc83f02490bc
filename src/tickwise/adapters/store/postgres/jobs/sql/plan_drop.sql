-- name: plan_drop
-- A job's fires that are yet to come and have not begun give way to a new plan, but for those that are in it too ($2 nominal times):
-- free ones are forgotten, held ones asked back. $1 job. $3: a run that is due more seconds than this after its nominal time was
-- postponed and stays. One that stays is settled anew: the new plan may put others before it. What an earlier plan (without an error) or a
-- pause asked of it is withdrawn, unless the job is paused: then it is asked for that, with $4, to be given back if it is due more seconds
-- than $5 after its nominal time, else to be skipped. A request for a hold of its queue stays (`return` without an error).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, state, holder, token, coalesce(date_part('epoch', due - nominal) > $5::float8, false) AS postponed,
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
wanted AS MATERIALIZED (
  SELECT run_id, error IS NOT NULL AS for_pause,
         (SELECT standing = {JobStanding.PAUSED} AND (pause_until IS NULL OR pause_until > (SELECT at FROM clock)) FROM tickwise.jobs WHERE job_id = $1) AS paused
  FROM tickwise.cancel_requests
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE kept))
    AND kind <> 'cancel' AND reason IS DISTINCT FROM 'requested' AND (kind = 'revoke' OR error IS NOT NULL)
),
withdrawn AS (
  DELETE FROM tickwise.cancel_requests WHERE run_id = ANY(ARRAY(SELECT run_id FROM wanted WHERE NOT paused))
),
paused AS (
  UPDATE tickwise.cancel_requests c
  SET kind = CASE WHEN o.postponed THEN 'return' ELSE 'revoke' END, reason = CASE WHEN NOT o.postponed THEN 'paused' END, error = $4::text,
      asked = (SELECT at FROM clock), heard = NULL
  FROM o WHERE c.run_id = o.run_id AND c.run_id = ANY(ARRAY(SELECT run_id FROM wanted WHERE paused AND NOT for_pause))
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT (SELECT at FROM clock), token, holder, run_id, 'revoke' FROM o WHERE state = {RunState.DISPATCHED} AND NOT kept
ON CONFLICT (run_id) DO UPDATE
SET kind = 'revoke', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token OR c.kind = 'return' OR c.kind = 'revoke' AND c.reason IS DISTINCT FROM 'requested'
