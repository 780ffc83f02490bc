-- Take of the runs that are named those that `claim` could take, in the order in which they are named. $1 executor, $2 limit, $3 queues,
-- $4 labels, $5 seconds ahead, $6 run ids.
-- Each is looked up by its id, and what else is asked of it (IS TRUE) can be asked of no index, whatever statistics say of one.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
me AS MATERIALIZED (
  SELECT true AS alive FROM tickwise.executors
  WHERE executor = $1 AND gone IS NULL AND lease > (SELECT at FROM clock) FOR SHARE
),
served AS MATERIALIZED (
  SELECT l.lane FROM tickwise.lanes l
  WHERE l.queue = ANY($3::text[]) AND l.requires <@ $4::text[] AND (SELECT alive FROM me)
    AND (l.namespace, l.queue) NOT IN (SELECT namespace, queue FROM tickwise.queues_held)
)
UPDATE tickwise.runs
SET holder = $1, token = (SELECT nextval('tickwise.fence')), attempt = attempt + CASE WHEN attempt < 32767 THEN 1 ELSE 0 END, state = 2,
    claimed = (SELECT at FROM clock)
WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM unnest($6::uuid[]) n(run_id) CROSS JOIN LATERAL (
      SELECT ctid FROM tickwise.runs
      WHERE run_id = n.run_id AND (holder = 0) IS TRUE AND (lane IN (SELECT lane FROM served)) IS TRUE
        AND (ready <= (SELECT at FROM clock) + $5::float8 * interval '1 second') IS TRUE
      FOR UPDATE SKIP LOCKED) r
    LIMIT $2))
  AND holder = 0
RETURNING run_id, token, job_id, namespace, attempt, failures, crashes, guarded OR overlap > 0, date_part('epoch', due),
          date_part('epoch', coalesce(nominal, due)), date_part('epoch', ready), trigger,
          -- Without a copy it is large. Without a job, which cannot be, it is handed over all the same, so that it ends on record.
          coalesce(spec, (SELECT j.definition FROM tickwise.jobs j WHERE j.job_id = runs.job_id), ''),
          (SELECT date_part('epoch', at) FROM clock), lane
