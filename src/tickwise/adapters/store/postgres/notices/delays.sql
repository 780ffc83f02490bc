-- name: delays_runs
-- Of the $3 runs behind the run $4, by their ids and before $5, those of the namespaces $1 that were due more than $2 seconds ago and have
-- not begun or go on; and the last one of a full page, of any namespace.
WITH w AS MATERIALIZED (
  SELECT run_id, job_id, lane, namespace, due, started, state, attempt FROM tickwise.runs
  WHERE run_id > $4::uuid AND run_id < $5::uuid ORDER BY run_id LIMIT $3
),
page AS (
  SELECT w.*, w.run_id = (SELECT run_id FROM w ORDER BY run_id OFFSET $3 - 1 LIMIT 1) AS ends_page,
         CASE WHEN w.namespace <> ALL($1::text[]) OR w.due >= tickwise.now() - $2::float8 * interval '1 second' THEN false
              WHEN w.state = {RunState.RUNNING} THEN true
              WHEN w.state = {RunState.RETRYING} OR w.attempt <> (w.state = {RunState.DISPATCHED})::int THEN false
              WHEN w.lane IN (SELECT h.lane FROM tickwise.lanes_held h) THEN false
              WHEN (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) THEN NOT tickwise.is_stopped(w.job_id) ELSE true END AS is_slow
  FROM w
)
SELECT p.namespace, p.run_id, p.job_id, j.name, j.labels::text AS labels, date_part('epoch', p.due) AS due_at,
       CASE WHEN p.state = {RunState.RUNNING} THEN date_part('epoch', p.started) END AS started_at, ends_page, is_slow AND j.name IS NOT NULL AS is_slow
FROM page p LEFT JOIN LATERAL (SELECT name, labels FROM tickwise.jobs j WHERE j.job_id = p.job_id AND p.is_slow LIMIT 1) j ON true
WHERE p.is_slow OR p.ends_page ORDER BY p.run_id

-- name: delays_durations
-- The durations of the newest $2 runs of each of the jobs $1 that succeeded.
SELECT q.job_id, h.seconds FROM unnest($1::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT date_part('epoch', h.ended - h.started) AS seconds FROM tickwise.history h
  WHERE h.job_id = q.job_id AND h.job_id IS NOT NULL AND h.state = {RunState.SUCCESS} AND h.started IS NOT NULL
  ORDER BY h.run_id DESC LIMIT $2) h

-- name: delays_samples
-- The newest $2 runs of each of the jobs $1 that succeeded, of its newest 4 * $2 ended runs with ids below $4; with $3 those of them alone that
-- ended from then on.
SELECT q.job_id, h.run_id, h.namespace, date_part('epoch', h.ended) AS ended_at, greatest(0, date_part('epoch', h.ended - h.started)) AS seconds,
       h.output_bytes
FROM unnest($1::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT n.* FROM (
    SELECT run_id, namespace, state, started, ended, output_bytes FROM tickwise.history h
    WHERE h.job_id = q.job_id AND h.job_id IS NOT NULL AND h.run_id < $4
    ORDER BY h.run_id DESC LIMIT 4 * $2::bigint) n
  WHERE n.state = {RunState.SUCCESS} AND n.started IS NOT NULL ORDER BY n.run_id DESC LIMIT $2) h
WHERE $3::float8 IS NULL OR h.ended >= to_timestamp($3)
ORDER BY q.job_id, h.run_id DESC

-- name: delays_jobs
-- Of the $3 lasting jobs behind the job $2 those of the namespaces $1; and the last one of a full page, of any namespace.
WITH page AS MATERIALIZED (
  SELECT job_id, namespace, name, labels FROM tickwise.jobs_lasting WHERE job_id > $2 ORDER BY job_id LIMIT $3
),
said AS (
  SELECT p.*, job_id = (SELECT job_id FROM page ORDER BY job_id OFFSET $3 - 1) AS ends_page, namespace = ANY($1::text[]) AS is_asked FROM page p
)
SELECT job_id, namespace, name, labels::text AS labels, ends_page, is_asked FROM said WHERE is_asked OR ends_page ORDER BY job_id

-- name: delays_jobs_named
-- Of the $3 jobs behind the job $2, of the jobs $4, those of the namespaces $1; and the last one of a full page, of any namespace.
WITH page AS MATERIALIZED (
  SELECT job_id, namespace, name, labels FROM tickwise.jobs WHERE job_id = ANY($4::uuid[]) AND job_id > $2 ORDER BY job_id LIMIT $3
),
said AS (
  SELECT p.*, job_id = (SELECT job_id FROM page ORDER BY job_id OFFSET $3 - 1) AS ends_page, namespace = ANY($1::text[]) AS is_asked FROM page p
)
SELECT job_id, namespace, name, labels::text AS labels, ends_page, is_asked FROM said WHERE is_asked OR ends_page ORDER BY job_id

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
