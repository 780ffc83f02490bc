-- name: delays_runs
-- Runs of the namespace $1 that were due more than $2 seconds ago and have not begun or go on. In each lane the $3 are looked at that wait
-- longest, and as many that wait for others.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at, tickwise.now() - $2::float8 * interval '1 second' AS since),
w AS MATERIALIZED (
  SELECT r.*, l.lane IN (SELECT h.lane FROM tickwise.lanes_held h) AS is_held
  FROM tickwise.lanes l CROSS JOIN LATERAL (
    (SELECT run_id, job_id, due, started, state, attempt FROM tickwise.runs r
     WHERE r.lane = l.lane AND r.ready < (SELECT at FROM clock) ORDER BY r.ready LIMIT $3)
    UNION ALL
    (SELECT run_id, job_id, due, started, state, attempt FROM tickwise.runs r WHERE r.lane = l.lane AND r.ready = 'infinity' LIMIT $3)) r
  WHERE l.namespace = $1 AND r.due < (SELECT since FROM clock)
)
SELECT w.run_id, w.job_id, j.name, j.labels::text AS labels, date_part('epoch', w.due) AS due_at,
       CASE WHEN w.state = {RunState.RUNNING} THEN date_part('epoch', w.started) END AS started_at
FROM w CROSS JOIN LATERAL (SELECT name, labels FROM tickwise.jobs j WHERE j.job_id = w.job_id LIMIT 1) j
WHERE w.state = {RunState.RUNNING}
   OR w.state <> {RunState.RETRYING} AND w.attempt = (w.state = {RunState.DISPATCHED})::int AND NOT w.is_held AND NOT tickwise.is_stopped(w.job_id)
ORDER BY w.due, w.run_id LIMIT $3

-- name: delays_durations
-- The durations of the newest $2 runs of each of the jobs $1 that succeeded.
SELECT q.job_id, h.seconds FROM unnest($1::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT date_part('epoch', h.ended - h.started) AS seconds FROM tickwise.history h
  WHERE h.job_id = q.job_id AND h.job_id IS NOT NULL AND h.state = {RunState.SUCCESS} AND h.started IS NOT NULL
  ORDER BY h.run_id DESC LIMIT $2) h

-- name: delays_timers
-- Of the $3 timers behind the place ($4 due, $5 job) that are overdue longest, by more than $2 seconds, those of the namespaces $1; and the
-- last one of a full page, of any namespace.
WITH t AS MATERIALIZED (
  (SELECT job_id, due FROM tickwise.timers
   WHERE run_id IS NULL AND hold IS NULL AND due < tickwise.now() - $2::float8 * interval '1 second'
     AND due >= to_timestamp($4::float8) AND (due, job_id) > (to_timestamp($4), $5::uuid) ORDER BY due, job_id LIMIT $3)
  UNION ALL
  (SELECT job_id, due FROM tickwise.timers
   WHERE run_id IS NOT NULL AND hold IS NULL AND due < tickwise.now() - $2 * interval '1 second'
     AND due >= to_timestamp($4) AND (due, job_id) > (to_timestamp($4), $5) ORDER BY due, job_id LIMIT $3)
  ORDER BY due, job_id LIMIT $3
),
page AS (
  SELECT j.namespace, t.job_id, j.name, t.due, t.job_id = (SELECT job_id FROM t ORDER BY due, job_id OFFSET $3 - 1) AS ends_page,
         j.namespace = ANY($1::text[]) AND j.standing = {JobStanding.PLANNED} AS is_asked
  FROM t LEFT JOIN LATERAL (SELECT namespace, name, standing FROM tickwise.jobs j WHERE j.job_id = t.job_id LIMIT 1) j ON true
)
SELECT namespace, job_id, name, date_part('epoch', due) AS due_at, ends_page, is_asked FROM page
WHERE is_asked OR ends_page ORDER BY due, job_id

-- name: delays_executors
-- Executors whose lease ended in the last $1 seconds without their leaving, the last one first; whether there is one of the name again. $2
-- at most.
SELECT e.executor AS number, e.name, date_part('epoch', e.gone) AS gone_at,
       EXISTS (SELECT FROM tickwise.executors o WHERE o.name = e.name AND o.gone IS NULL) AS is_back
FROM tickwise.executors e
WHERE e.gone > tickwise.now() - $1::float8 * interval '1 second' AND e.gone >= e.lease ORDER BY e.gone DESC, e.executor DESC LIMIT $2

-- name: keys_ending
-- Keys that end within $1 seconds, those that end first before others. $2 and $3 the page begins behind this time and id, $4 how many.
SELECT key_id, name, namespace, namespaces, date_part('epoch', expires) AS ends_at, revoked IS NOT NULL AS is_revoked
FROM tickwise.keys
WHERE expires IS NOT NULL AND expires > tickwise.now() AND expires <= tickwise.now() + $1::float8 * interval '1 second'
  AND ($2::float8 IS NULL OR (expires, key_id) > (to_timestamp($2), $3::uuid))
ORDER BY expires, key_id LIMIT $4
