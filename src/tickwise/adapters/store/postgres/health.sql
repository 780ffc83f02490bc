-- name: check_claimed_in_time
-- Runs that are free and ready for more than a minute, and that nobody took. $1 page: ids after it, $2 limit. One row for each that is
-- wrong, one at least, and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, namespace, holder, blocked, ready, due, lane, job_id FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'nobody took it for ' || round(date_part('epoch', (SELECT at FROM clock) - greatest(ready, due))) || ' s' AS detail, namespace, lane
  FROM p
  WHERE holder = 0 AND NOT blocked AND greatest(ready, due) < (SELECT at FROM clock) - interval '1 minute'
    AND lane NOT IN (SELECT lane FROM tickwise.lanes_held)
    AND NOT ((SELECT count(*) > 0 FROM tickwise.stops_of_jobs) AND tickwise.is_stopped(job_id))
)
SELECT bad.subject, bad.detail, bad.namespace, bad.lane, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_ended_once
-- Runs that are both active and on record. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the
-- last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, namespace, state FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it is active (state ' || state || ') and on record' AS detail, namespace FROM p
  WHERE (SELECT true FROM tickwise.history h WHERE h.run_id = p.id OFFSET 0)
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_expired_in_time
-- Executors whose lease is over for more than a minute and that are not expired, or that hold something still. $1 page: ids after it, $2
-- limit. One row for each that is wrong, one at least, and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT lpad(to_hex(executor), 32, '0')::uuid AS id, lease, lease_seconds, gone, settled FROM tickwise.executors
  WHERE executor > coalesce(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint, 0) ORDER BY executor LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, CASE WHEN gone IS NULL THEN 'its lease is over for more than a minute'
                             ELSE 'it is gone for more than a minute, and may hold runs still' END AS detail,
         NULL::text AS namespace
  FROM p
  WHERE CASE WHEN gone IS NULL
        THEN lease < (SELECT at FROM clock) - interval '1 minute'
             AND (SELECT tickwise.started()) + lease_seconds * interval '1 second' < (SELECT at FROM clock) - interval '1 minute'
        ELSE NOT settled AND gone < (SELECT at FROM clock) - interval '1 minute' END
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_fired_in_time
-- Timers that are due for more than a minute. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each
-- the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT job_id AS id, due FROM tickwise.timers
  WHERE job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'its timer is due for ' || round(date_part('epoch', (SELECT at FROM clock) - due)) || ' s' AS detail,
         (SELECT j.namespace FROM tickwise.jobs j WHERE j.job_id = p.id OFFSET 0) AS namespace
  FROM p
  WHERE due < (SELECT at FROM clock) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_followed_in_time
-- Runs whose end should have started others for more than a minute. $1 page: ids after it, $2 limit. One row for each that is wrong, one at
-- least, and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, since FROM tickwise.follows
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'its sequence waits for ' || round(date_part('epoch', (SELECT at FROM clock) - since)) || ' s' AS detail,
         (SELECT h.namespace FROM tickwise.history h WHERE h.run_id = p.id OFFSET 0) AS namespace
  FROM p
  WHERE since < (SELECT at FROM clock) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_has_a_job
-- Active runs and timers of no job. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last
-- that was looked at, and how many were. Runs are read as far as the page of timers reaches: most timers are older than all runs, and the
-- index of runs begins with those that ended a moment ago.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
t AS MATERIALIZED (
  SELECT job_id FROM tickwise.timers
  WHERE job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2
),
reach AS MATERIALIZED (
  SELECT CASE WHEN count(*) < $2 THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE (SELECT job_id FROM t ORDER BY job_id DESC LIMIT 1) END AS id FROM t
),
p AS MATERIALIZED (
  SELECT id, job_id, what, namespace FROM (
    (SELECT run_id AS id, job_id, 'run' AS what, namespace FROM tickwise.runs
     WHERE run_id > coalesce($1, '00000000-0000-0000-0000-000000000000') AND run_id <= (SELECT id FROM reach) ORDER BY run_id LIMIT $2)
    UNION ALL
    (SELECT job_id, job_id, 'timer', NULL FROM t)) u
  ORDER BY id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'there is a ' || what || ' of the job ' || job_id || ', which is not there' AS detail, namespace FROM p
  WHERE (SELECT true FROM tickwise.jobs j WHERE j.job_id = p.job_id LIMIT 1) IS NULL
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_heard_in_time
-- Requests to stop a run that its holder has not heard for a minute, or that outlive their run. $1 page: ids after it, $2 limit. One row
-- for each that is wrong, one at least, and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT c.run_id AS id, c.asked, c.heard, c.kind,
         (SELECT r.holder = c.holder AND r.token = c.token FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) IS TRUE AS held
  FROM tickwise.cancel_requests c
  WHERE c.run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY c.run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, CASE WHEN held THEN 'its holder has not heard for a minute that it should stop'
                             ELSE 'a request to stop it is there, and nobody holds it' END AS detail,
         (SELECT s.namespace FROM tickwise.runs_shown s WHERE s.run_id = p.id LIMIT 1) AS namespace
  FROM p
  WHERE kind <> 'return' AND asked < (SELECT at FROM clock) - interval '1 minute'
    AND CASE WHEN held THEN heard IS NULL
        ELSE (SELECT h.ended < (SELECT at FROM clock) - interval '1 minute' FROM tickwise.history h WHERE h.run_id = p.id OFFSET 0)
             IS NOT FALSE END
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_held_as_told
-- Active executors that have differed from the store about their held runs for more than a minute. $1 page: ids after it, $2 limit. One row
-- for each that is wrong, one at least, and in each the last that was looked at, and how many were.
WITH p AS MATERIALIZED (
  SELECT lpad(to_hex(executor), 32, '0')::uuid AS id, executor, gone, differs, differing FROM tickwise.executors
  WHERE executor > coalesce(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint, 0) ORDER BY executor LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'executor ' || executor || ' has said for more than a minute that it holds other runs than the store says: '
                        || differs || ' of them' AS detail, NULL::text AS namespace
  FROM p WHERE gone IS NULL AND differs > 0 AND differing < (SELECT tickwise.now()) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_held_by_active
-- Runs that are held by nobody who could finish them. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in
-- each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, namespace, holder FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT p.id AS subject, 'it is held by executor ' || p.holder || ', which is gone' AS detail, namespace FROM p
  WHERE p.holder <> 0 AND (SELECT true FROM tickwise.executors e
                           WHERE e.executor = p.holder AND (e.gone IS NULL OR NOT e.settled) OFFSET 0) IS NULL
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_planned
-- Recurring jobs that are neither paused nor cancelled and have no timer; but for namespaces that move between databases. $1 page: ids after it, $2 limit. One row for each that is wrong,
-- one at least, and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT job_id AS id, namespace, recurring, standing, pause_until, schedule_type FROM tickwise.jobs_lasting
  WHERE job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it recurs and has no timer' AS detail, namespace FROM p
  WHERE recurring AND schedule_type <> 'ON_DEMAND' AND (standing = {JobStanding.PLANNED} OR standing = {JobStanding.PAUSED} AND pause_until <= (SELECT at FROM clock))
    AND (SELECT true FROM tickwise.timers t WHERE t.job_id = p.id OFFSET 0) IS NULL
    AND namespace NOT IN (SELECT namespace FROM tickwise.shard_departures)
    AND namespace NOT IN (SELECT namespace FROM tickwise.shard_arrivals WHERE state <> 'arrived')
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: check_stepped_in_time
-- Operations that stand still for more than five minutes. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least,
-- and in each the last that was looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT operation_id AS id, namespace, status, updated FROM tickwise.operations
  WHERE operation_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY operation_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it stands still for ' || round(date_part('epoch', (SELECT at FROM clock) - updated)) || ' s' AS detail, namespace FROM p
  WHERE status = 'running' AND updated < (SELECT at FROM clock) - interval '5 minutes'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject

-- name: heal_ended_once
-- Delete an active run that has also ended; the record stays. $1 run. Returns the job and the keys that others may wait for.
DELETE FROM tickwise.runs r
WHERE run_id = $1 AND (SELECT true FROM tickwise.history h WHERE h.run_id = r.run_id OFFSET 0)
RETURNING job_id, namespace, CASE state WHEN {RunState.RUNNING} THEN limit_key END AS limit_key

-- name: heal_waits_for_something
-- Make a waiting run claimable; at its start it is settled again. $1 run.
UPDATE tickwise.runs SET blocked = false, ready = greatest((SELECT tickwise.now()), due) WHERE run_id = $1 AND blocked

-- name: heal_heard_in_time
-- Delete a request to stop a run that no executor holds. $1 run.
DELETE FROM tickwise.cancel_requests c
WHERE run_id = $1
  AND (SELECT true FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token OFFSET 0) IS NULL

-- name: heal_held_as_told
-- End the lease of an executor that has differed from the store for more than a minute. $1 the executor's number as an id.
UPDATE tickwise.executors SET gone = tickwise.now()
WHERE executor = ('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint AND gone IS NULL AND differs > 0
  AND differing < (SELECT tickwise.now()) - interval '1 minute'
