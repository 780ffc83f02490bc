-- A job's fires that are not due yet give way to a new plan, but for those that are in it too ($2 due times): free ones are
-- forgotten, held ones asked back. $1 job.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, state, holder, token, due = ANY(ARRAY(SELECT to_timestamp(k) FROM unnest($2::float8[]) k)) AS kept
  FROM tickwise.runs WHERE job_id = $1 AND trigger = 1 AND state IN (1, 2) AND due > (SELECT at FROM clock)
),
free AS (
  DELETE FROM tickwise.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE state = 1 AND NOT kept))
),
wanted AS (
  DELETE FROM tickwise.cancel_requests WHERE kind = 'revoke' AND run_id = ANY(ARRAY(SELECT run_id FROM o WHERE kept))
)
INSERT INTO tickwise.cancel_requests (asked, token, holder, run_id, kind)
SELECT (SELECT at FROM clock), token, holder, run_id, 'revoke' FROM o WHERE state = 2 AND NOT kept
ON CONFLICT DO NOTHING
