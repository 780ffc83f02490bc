-- name: unblock
-- Make the first waiting run of each of these jobs claimable if no unfinished run is before it any more. Returns those runs. Of several in
-- a row that would replace each other (CANCEL_RUNNING, asked for in one way), it is the last: at its start the others go. (They are gone
-- already, unless one began to wait in the moment in which it was asked to stop.) However many wait, it looks at a few of them
-- (`runs_waits`, `runs_line`, `runs_of_job`). $1 jobs, $2 whether nothing else is written in this transaction: then its commit need not wait for the disk,
-- since the sweep repeats the updates that a crash of the server loses. A run that another transaction has locked is left to the next sweep:
-- waiting for it could be a deadlock.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
f AS MATERIALIZED (
  SELECT f.*, line FROM (SELECT DISTINCT job_id FROM unnest($1::uuid[]) AS j(job_id)) j
  CROSS JOIN (VALUES (0), (1)) AS lines(line)
  CROSS JOIN LATERAL (
    SELECT run_id, job_id, due, overlap, trigger FROM tickwise.runs r
    WHERE r.job_id = j.job_id AND (r.trigger = {Trigger.BACKFILL})::int = line AND r.blocked AND r.limit_key IS NULL
    ORDER BY due, run_id LIMIT 1) f
),
w AS MATERIALIZED (
  SELECT run_id, job_id, due, line FROM f WHERE overlap <> {Overlap.CANCEL_RUNNING}
  UNION ALL
  SELECT w.run_id, f.job_id, w.due, f.line
  FROM f CROSS JOIN LATERAL (
    SELECT coalesce(o.due, 'infinity') AS due, coalesce(o.run_id, f.run_id) AS run_id
    FROM (SELECT) one LEFT JOIN LATERAL (
      SELECT due, run_id FROM tickwise.runs r
      WHERE r.job_id = f.job_id AND (r.trigger = {Trigger.BACKFILL})::int = f.line AND r.blocked AND r.limit_key IS NULL
        AND (r.overlap <> {Overlap.CANCEL_RUNNING} OR r.trigger <> f.trigger)
      ORDER BY r.due, r.run_id LIMIT 1) o ON true) other
  CROSS JOIN LATERAL (
    SELECT run_id, due FROM tickwise.runs r
    WHERE r.job_id = f.job_id AND (r.trigger = {Trigger.BACKFILL})::int = f.line AND r.blocked AND r.limit_key IS NULL
      AND (r.due, r.run_id) < (other.due, other.run_id)
    ORDER BY r.due DESC, r.run_id DESC LIMIT 1) w
  WHERE f.overlap = {Overlap.CANCEL_RUNNING}
),
free AS MATERIALIZED (
  SELECT run_id FROM w
  WHERE (SELECT true FROM tickwise.runs e
         WHERE e.job_id = w.job_id AND (e.trigger = {Trigger.BACKFILL})::int = w.line AND (e.overlap > 0)::int = 0
           AND (NOT e.blocked OR e.limit_key IS NOT NULL) AND (e.overlap <> {Overlap.ALLOW} OR e.trigger <> {Trigger.SCHEDULE})
           AND (e.overlap < 0 OR e.state > {RunState.QUEUED} OR (e.due, e.run_id) < (w.due, w.run_id))
         LIMIT 1) IS NULL
    AND (SELECT true FROM tickwise.runs e
         WHERE e.job_id = w.job_id AND (e.trigger = {Trigger.BACKFILL})::int = w.line AND (e.overlap > 0)::int = 1
           AND (NOT e.blocked OR e.limit_key IS NOT NULL) AND (e.overlap <> {Overlap.ALLOW} OR e.trigger <> {Trigger.SCHEDULE})
           AND (e.due, e.run_id) < (w.due, w.run_id)
         LIMIT 1) IS NULL
    AND (SELECT true FROM tickwise.runs e
         WHERE w.line = 0 AND e.job_id = w.job_id AND e.overlap = {Overlap.ALLOW} AND e.trigger = {Trigger.SCHEDULE}
           AND (e.state > {RunState.QUEUED} OR (e.due, e.run_id) < (w.due, w.run_id))
         LIMIT 1) IS NULL
),
u AS (
  UPDATE tickwise.runs SET blocked = false, ready = greatest((SELECT at FROM clock), due)
  WHERE run_id = ANY(ARRAY(
    SELECT run_id FROM tickwise.runs WHERE blocked AND limit_key IS NULL AND run_id = ANY(ARRAY(SELECT run_id FROM free)) FOR UPDATE SKIP LOCKED))
  RETURNING run_id, ready, lane
)
SELECT run_id, date_part('epoch', ready), lane, CASE WHEN $2::boolean THEN set_config('synchronous_commit', 'off', true) END FROM u
