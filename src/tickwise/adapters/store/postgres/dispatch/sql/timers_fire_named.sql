-- name: timers_fire_named
-- As `timers_fire`, and which runs came of it: one row each, with the last instant that was due and the clock; where none came, these
-- alone. $1 limit, $2 horizon in seconds, $3 mark to read from, $4 whether definitions that may name a trace are wanted.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
t AS (
  DELETE FROM tickwise.timers
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.timers
      WHERE run_id IS NOT NULL AND due <= (SELECT at FROM clock) + $2::float8 * interval '1 second'
        AND due >= to_timestamp($3::float8)
      ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING job_id, due, run_id
),
r AS (
  INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
  SELECT t.due, greatest(tickwise.place(t.due), (SELECT at FROM clock)), (SELECT at FROM clock), t.run_id, t.job_id, j.lane, j.namespace,
         CASE WHEN octet_length(j.definition) <= 8192 THEN j.definition END
  FROM t CROSS JOIN LATERAL (
    SELECT lane, namespace, definition FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
  ON CONFLICT DO NOTHING
  RETURNING run_id, ready, lane, job_id, namespace, spec
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM r WHERE CASE WHEN EXISTS (SELECT FROM r) THEN (SELECT tickwise.feed_watched()) END GROUP BY namespace) g
)
SELECT r.run_id, date_part('epoch', r.ready), r.lane, f.timers,
       CASE WHEN $4::boolean AND position('"traceparent"' IN r.spec) > 0 THEN r.spec END, f.latest, (SELECT date_part('epoch', at) FROM clock)
FROM (SELECT count(*) AS timers, date_part('epoch', max(due)) AS latest FROM t) f LEFT JOIN r ON true
WHERE (SELECT count(*) FROM noted) >= 0
