-- name: stop_get
-- One stop, in the columns of `stops_find`. $1 id.
SELECT stop_id, namespace, job_id, queue, labels, date_part('epoch', begun) AS begin, date_part('epoch', until) AS until, open_ended,
       meanwhile, reason, asked_by, date_part('epoch', asked) AS asked_at, lifted_by
FROM tickwise.stops WHERE stop_id = $1

-- name: stops_standing
-- The number of stops of a namespace that are in force or to come. $1 namespace.
SELECT count(*) FROM tickwise.stops WHERE namespace = $1 AND until > tickwise.now()

-- name: stop_add
-- Store a stop, and forget those that ended more than $12 seconds ago. $1 id, $2 namespace, $3 job, $4 queue, $5 labels, $6 begin, $7 end,
-- $8 whether it has none, $9 what comes of fires, $10 why, $11 by whom.
WITH old AS (DELETE FROM tickwise.stops WHERE until < tickwise.now() - $12::float8 * interval '1 second')
INSERT INTO tickwise.stops (asked, begun, until, stop_id, job_id, open_ended, namespace, queue, labels, meanwhile, reason, asked_by)
SELECT at, greatest(at, to_timestamp($6::float8)), to_timestamp($7::float8), $1, $3, $8, $2, $4, $5::jsonb, $9, $10, $11
FROM (SELECT tickwise.now() AS at) clock

-- name: stop_lift
-- End a stop now. $1 id, $2 namespace, $3 by whom. Returns whether it stood.
UPDATE tickwise.stops SET until = tickwise.now(), lifted_by = $3 WHERE stop_id = $1 AND namespace = $2 AND until > tickwise.now() RETURNING true

-- name: stop_unask
-- Delete the requests to give back runs of a namespace that nothing keeps from beginning any more. $1 namespace.
DELETE FROM tickwise.cancel_requests c
WHERE kind = 'return' AND error IS NULL AND (
  SELECT r.namespace = $1 AND r.lane NOT IN (SELECT lane FROM tickwise.lanes_held) AND NOT tickwise.is_stopped(r.job_id)
  FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0)

-- name: stops_find
-- Stops, the newest first. $1 namespace (NULL: all), $2 id (NULL: any), $3 ids below it (NULL: all), $4 those that ended more than so many
-- seconds ago are none, $5 limit.
SELECT stop_id, namespace, job_id, queue, labels, date_part('epoch', begun) AS begin, date_part('epoch', until) AS until, open_ended,
       meanwhile, reason, asked_by, date_part('epoch', asked) AS asked_at, lifted_by
FROM tickwise.stops
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::uuid IS NULL OR stop_id = $2) AND ($3::uuid IS NULL OR stop_id < $3)
  AND until > tickwise.now() - $4::float8 * interval '1 second'
ORDER BY stop_id DESC LIMIT $5

-- name: stops_due_of_jobs
-- A job, or jobs with labels, whose timer is due before an instant, the earliest first. $1 namespace, $2 job (NULL: by labels), $3 labels,
-- $4 that instant, $5 limit. Looks at each job with the labels.
SELECT j.job_id, j.name, j.definition, date_part('epoch', t.due) AS due, date_part('epoch', t.since) AS since, t.hold,
       coalesce(t.fired, 0) AS fired
FROM (
  SELECT job_id, name, definition FROM tickwise.jobs WHERE job_id = $2::uuid AND namespace = $1
  UNION ALL
  SELECT job_id, name, definition FROM tickwise.jobs WHERE $2 IS NULL AND labels @> $3::jsonb AND namespace = $1) j
CROSS JOIN LATERAL (SELECT due, since, hold, fired FROM tickwise.timers t WHERE t.job_id = j.job_id OFFSET 0) t
WHERE t.due < to_timestamp($4::float8)
ORDER BY t.due, j.job_id LIMIT $5

-- name: stops_due_of_lanes
-- Jobs of a namespace, or of a queue of it, whose timer is due before an instant, the earliest first. $1 namespace, $2 queue (NULL: any),
-- $3 that instant, $4 limit. Timers are read in the order in which they are due.
SELECT j.job_id, j.name, j.definition, date_part('epoch', t.due) AS due, date_part('epoch', t.since) AS since, t.hold,
       coalesce(t.fired, 0) AS fired
FROM (
  (SELECT job_id, due, since, hold, fired FROM tickwise.timers WHERE run_id IS NULL AND due < to_timestamp($3::float8) ORDER BY due)
  UNION ALL
  (SELECT job_id, due, since, hold, fired FROM tickwise.timers WHERE run_id IS NOT NULL AND due < to_timestamp($3) ORDER BY due)
  ORDER BY due OFFSET 0) t
CROSS JOIN LATERAL (
  SELECT job_id, name, definition FROM tickwise.jobs j
  WHERE j.job_id = t.job_id AND j.namespace = $1
    AND ($2::text IS NULL OR j.lane IN (SELECT lane FROM tickwise.lanes l WHERE l.namespace = $1 AND l.queue = $2)) OFFSET 0) j
ORDER BY t.due LIMIT $4
