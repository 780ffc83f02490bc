-- In each of these jobs the first run that waits is claimable if nothing unfinished is before it any more; how many were made so.
-- Where the last one takes the place of those before it (overlap 4), it is the last: at its start the others go. (They are gone
-- already, unless one began to wait in the moment in which it was asked to stop.)
-- $1 jobs. One that somebody else has in hand just now is left to the next sweep: waiting for it could be waiting in a circle.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
w AS MATERIALIZED (
  SELECT w.run_id
  FROM (SELECT DISTINCT job_id FROM unnest($1::uuid[]) AS j(job_id)) j
  CROSS JOIN (VALUES (false), (true)) AS line(backfill)
  CROSS JOIN LATERAL (
    SELECT run_id, job_id, due, overlap FROM tickwise.runs r
    WHERE r.job_id = j.job_id AND r.blocked AND r.limit_key IS NULL AND (r.trigger = 5) = line.backfill
    ORDER BY due, run_id LIMIT 1) f
  CROSS JOIN LATERAL (
    SELECT f.* WHERE f.overlap <> 4
    UNION ALL (
      SELECT run_id, job_id, due, overlap FROM tickwise.runs r
      WHERE f.overlap = 4 AND r.job_id = f.job_id AND r.blocked AND r.limit_key IS NULL AND (r.trigger = 5) = line.backfill AND r.overlap = 4
      ORDER BY due DESC, run_id DESC LIMIT 1)) w
  WHERE (SELECT true FROM tickwise.runs e
         WHERE e.job_id = w.job_id AND (e.trigger = 5) = line.backfill AND e.run_id <> w.run_id
           AND NOT (e.blocked AND w.overlap = 4)
           AND ((e.due, e.run_id) < (w.due, w.run_id) OR e.overlap < 0 OR e.overlap = 0 AND e.state > 1)
         LIMIT 1) IS NULL
),
u AS (
  UPDATE tickwise.runs SET blocked = false, ready = greatest((SELECT at FROM clock), due)
  WHERE run_id = ANY(ARRAY(
    SELECT run_id FROM tickwise.runs WHERE blocked AND limit_key IS NULL AND run_id = ANY(ARRAY(SELECT run_id FROM w)) FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM u
