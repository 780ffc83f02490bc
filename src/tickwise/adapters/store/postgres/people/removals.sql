-- name: removal_lock
-- A namespace, locked against what is added to it until this transaction ends. $1 name.
SELECT name FROM tickwise.namespaces WHERE name = $1 FOR UPDATE

-- name: removal_begin
-- Note that a namespace is being removed. $1 name.
UPDATE tickwise.namespaces SET version = version + 1, removing = tickwise.now() WHERE name = $1

-- name: removal_people
-- Delete the memberships and the custom roles of a namespace; tokens and open links of its members are refused from now on. $1 name.
WITH m AS (DELETE FROM tickwise.members WHERE namespace = $1 RETURNING user_id),
u AS (
  UPDATE tickwise.users SET generation = generation + 1, version = version + 1 WHERE user_id IN (SELECT user_id FROM m)
),
l AS (DELETE FROM tickwise.user_links WHERE used IS NULL AND user_id IN (SELECT user_id FROM m))
DELETE FROM tickwise.custom_roles WHERE namespace = $1

-- name: removal_sessions
-- End the sessions that are bound to a namespace. $1 name.
UPDATE tickwise.sessions SET revoked = tickwise.now() WHERE namespace = $1 AND revoked IS NULL

-- name: removal_keys
-- Delete the keys that work in this namespace alone; the others lose it, and have another one for requests that name none. $1 name.
-- Programs of before write no list: their keys of the installation work in each namespace, the others in their own.
WITH k AS MATERIALIZED (
  SELECT key_id, array_remove(coalesce(namespaces, CASE WHEN origin = 'made' THEN ARRAY[namespace] ELSE '{*}' END), $1::text) AS rest
  FROM tickwise.keys WHERE namespace = $1 OR namespaces @> ARRAY[$1::text]
),
gone AS (DELETE FROM tickwise.keys WHERE key_id IN (SELECT key_id FROM k WHERE rest = '{}'))
UPDATE tickwise.keys SET
  namespaces = CASE WHEN namespaces IS NOT NULL THEN rest END,
  namespace = CASE WHEN namespace <> $1 THEN namespace WHEN '*' = ANY(rest) THEN 'default' ELSE rest[1] END
FROM k WHERE k.rest <> '{}' AND keys.key_id = k.key_id

-- name: removal_take
-- Take, for $1 seconds, the removal that waits longest and that no scheduler has.
UPDATE tickwise.namespaces SET free = tickwise.now() + $1::float8 * interval '1 second'
WHERE name = (
  SELECT name FROM tickwise.namespaces
  WHERE removing IS NOT NULL AND coalesce(free, removing) <= (SELECT tickwise.now())
  ORDER BY coalesce(free, removing), name LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING name

-- name: removal_put_back
-- Let the removal of the namespace $1 be taken again in $2 seconds.
UPDATE tickwise.namespaces SET free = tickwise.now() + $2::float8 * interval '1 second' WHERE name = $1 AND removing IS NOT NULL

-- name: removal_left
-- The jobs, unfinished runs and ended runs of a namespace. $1 name, $2 each counted to this.
SELECT (SELECT count(*) FROM (SELECT FROM tickwise.jobs WHERE namespace = $1 AND namespace <> 'default' LIMIT $2) j),
       (SELECT count(*) FROM (
          SELECT FROM tickwise.lanes l JOIN tickwise.runs r ON r.lane = l.lane WHERE l.namespace = $1 LIMIT $2) r),
       (SELECT count(*) FROM (SELECT FROM tickwise.history WHERE namespace = $1 AND namespace <> 'default' LIMIT $2) h)

-- name: removal_jobs_going
-- The jobs of a namespace that go on, in the order of their ids. $1 name, $2 ids above it, $3 at most.
SELECT job_id FROM tickwise.jobs j
WHERE namespace = $1 AND namespace <> 'default' AND job_id > $2 AND standing <> {JobStanding.CANCELLED}
  AND (standing = {JobStanding.PAUSED} OR schedule_type = 'ON_DEMAND'
    OR (SELECT true FROM tickwise.timers t WHERE t.job_id = j.job_id) OR (SELECT true FROM tickwise.runs r WHERE r.job_id = j.job_id LIMIT 1))
ORDER BY job_id LIMIT $3

-- name: removal_runs
-- Delete ended runs of a namespace that is being removed, with all that is told of them; how many. $1 name, $2 runs.
WITH h AS (
  DELETE FROM tickwise.history WHERE run_id = ANY($2::uuid[]) AND namespace = $1
    AND (SELECT removing IS NOT NULL FROM tickwise.namespaces WHERE name = $1)
  RETURNING run_id
),
a AS (DELETE FROM tickwise.attempts WHERE run_id IN (SELECT run_id FROM h)),
l AS (DELETE FROM tickwise.letters WHERE run_id IN (SELECT run_id FROM h)),
f AS (DELETE FROM tickwise.follows WHERE run_id IN (SELECT run_id FROM h)),
n AS (DELETE FROM tickwise.failures_new WHERE run_id IN (SELECT run_id FROM h)),
e AS (DELETE FROM tickwise.error_letters WHERE run_id IN (SELECT run_id FROM h))
SELECT count(*) FROM h

-- name: removal_jobs_lock
-- Jobs without unfinished runs of a namespace that is being removed, locked until this transaction ends. $1 name, $2 at most.
SELECT job_id FROM tickwise.jobs j
WHERE namespace = $1 AND namespace <> 'default'
  AND (SELECT removing IS NOT NULL FROM tickwise.namespaces WHERE name = $1)
  AND (SELECT true FROM tickwise.runs r WHERE r.job_id = j.job_id LIMIT 1) IS NULL
ORDER BY job_id LIMIT $2 FOR UPDATE OF j

-- name: removal_timers
-- Delete the timers of the jobs $1.
DELETE FROM tickwise.timers WHERE job_id = ANY($1::uuid[])

-- name: removal_jobs
-- Delete those of the jobs $1 that still have no unfinished run; how many.
WITH d AS (
  DELETE FROM tickwise.jobs j
  WHERE job_id = ANY($1::uuid[]) AND (SELECT true FROM tickwise.runs r WHERE r.job_id = j.job_id LIMIT 1) IS NULL
  RETURNING job_id
),
p AS (DELETE FROM tickwise.jobs_placed WHERE job_id IN (SELECT job_id FROM d))
SELECT count(*) FROM d

-- name: removal_rules
-- Delete calendars and windows of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.rules WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM tickwise.rules r JOIN tickwise.namespaces n ON n.name = r.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
),
v AS (UPDATE tickwise.rules_version SET version = version + 1 WHERE EXISTS (SELECT FROM d))
SELECT count(*) FROM d

-- name: removal_tasks
-- Delete versions of tasks of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.tasks WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM tickwise.tasks t JOIN tickwise.namespaces n ON n.name = t.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_operations
-- Delete operations of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.operations WHERE ctid = ANY(ARRAY(
    SELECT o.ctid FROM tickwise.operations o JOIN tickwise.namespaces n ON n.name = o.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_receipts
-- Delete the answers that callers had in a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.receipts WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM tickwise.namespaces n JOIN tickwise.receipts r ON starts_with(r.principal, n.name || '/')
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_gates
-- Delete holds, stops, saved views, objectives, concurrency keys, rates and counts of fires of a namespace that is being removed; how many of the most. $1 name, $2 at most.
WITH n AS MATERIALIZED (SELECT name FROM tickwise.namespaces WHERE name = $1 AND removing IS NOT NULL),
h AS (
  DELETE FROM tickwise.holds WHERE ctid = ANY(ARRAY(SELECT h.ctid FROM n JOIN tickwise.holds h ON h.namespace = n.name LIMIT $2)) RETURNING 1
),
l AS (
  DELETE FROM tickwise.limits WHERE ctid = ANY(ARRAY(SELECT l.ctid FROM n JOIN tickwise.limits l ON l.namespace = n.name LIMIT $2)) RETURNING 1
),
r AS (
  DELETE FROM tickwise.rates WHERE ctid = ANY(ARRAY(SELECT r.ctid FROM n JOIN tickwise.rates r ON r.namespace = n.name LIMIT $2)) RETURNING 1
),
s AS (
  DELETE FROM tickwise.stops WHERE ctid = ANY(ARRAY(SELECT s.ctid FROM n JOIN tickwise.stops s ON s.namespace = n.name LIMIT $2)) RETURNING 1
),
v AS (
  DELETE FROM tickwise.saved_views WHERE ctid = ANY(ARRAY(SELECT v.ctid FROM n JOIN tickwise.saved_views v ON v.namespace = n.name LIMIT $2)) RETURNING 1
),
o AS (
  DELETE FROM tickwise.objectives WHERE ctid = ANY(ARRAY(SELECT o.ctid FROM n JOIN tickwise.objectives o ON o.namespace = n.name LIMIT $2)) RETURNING 1
),
f AS (
  DELETE FROM tickwise.fires WHERE ctid = ANY(ARRAY(SELECT f.ctid FROM n JOIN tickwise.fires f ON f.namespace = n.name LIMIT $2)) RETURNING 1
)
SELECT greatest((SELECT count(*) FROM h), (SELECT count(*) FROM l), (SELECT count(*) FROM r), (SELECT count(*) FROM s), (SELECT count(*) FROM v), (SELECT count(*) FROM o), (SELECT count(*) FROM f))

-- name: removal_tallies_new
-- Delete the newest counts of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.tallies_new WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM tickwise.tallies_new t JOIN tickwise.namespaces n ON n.name = t.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_tallies
-- Delete the counts of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.tallies WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM tickwise.tallies t JOIN tickwise.namespaces n ON n.name = t.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_status_pages
-- Delete status pages of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.status_pages WHERE page_id = ANY(ARRAY(
    SELECT p.page_id FROM tickwise.status_pages p JOIN tickwise.namespaces n ON n.name = p.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_secrets
-- Delete secrets of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.secrets WHERE ctid = ANY(ARRAY(
    SELECT p.ctid FROM tickwise.secrets p JOIN tickwise.namespaces n ON n.name = p.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_error_groups
-- Delete groups of errors of a namespace that is being removed; how many. $1 name, $2 at most.
WITH d AS (
  DELETE FROM tickwise.error_groups WHERE group_id = ANY(ARRAY(
    SELECT e.group_id FROM tickwise.error_groups e JOIN tickwise.namespaces n ON n.name = e.namespace
    WHERE n.name = $1 AND n.removing IS NOT NULL LIMIT $2))
  RETURNING 1
)
SELECT count(*) FROM d

-- name: removal_notices
-- Delete alerts, notices and events of a namespace that is being removed; how many of the most. $1 name, $2 at most.
WITH n AS MATERIALIZED (SELECT name FROM tickwise.namespaces WHERE name = $1 AND removing IS NOT NULL),
a AS (
  DELETE FROM tickwise.alerts WHERE ctid = ANY(ARRAY(SELECT a.ctid FROM n JOIN tickwise.alerts a ON a.namespace = n.name LIMIT $2)) RETURNING 1
),
m AS (
  DELETE FROM tickwise.notices WHERE ctid = ANY(ARRAY(SELECT m.ctid FROM n JOIN tickwise.notices m ON m.namespace = n.name LIMIT $2)) RETURNING 1
),
e AS (
  DELETE FROM tickwise.notices_events
  WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM n JOIN tickwise.notices_events e ON e.namespace = n.name LIMIT $2)) RETURNING 1
),
o AS (
  DELETE FROM tickwise.notices_noted
  WHERE ctid = ANY(ARRAY(SELECT o.ctid FROM n JOIN tickwise.notices_noted o ON o.namespace = n.name LIMIT $2)) RETURNING 1
)
SELECT greatest((SELECT count(*) FROM a), (SELECT count(*) FROM m), (SELECT count(*) FROM e), (SELECT count(*) FROM o))

-- name: removal_channels
-- Delete notification rules and channels of a namespace that is being removed; how many of the most. $1 name, $2 at most.
WITH n AS MATERIALIZED (SELECT name FROM tickwise.namespaces WHERE name = $1 AND removing IS NOT NULL),
w AS (DELETE FROM tickwise.notices_watched USING n WHERE notices_watched.namespace = n.name),
r AS (
  DELETE FROM tickwise.notification_rules
  WHERE ctid = ANY(ARRAY(SELECT r.ctid FROM n JOIN tickwise.notification_rules r ON r.namespace = n.name LIMIT $2)) RETURNING 1
),
c AS (
  DELETE FROM tickwise.channels
  WHERE ctid = ANY(ARRAY(SELECT c.ctid FROM n JOIN tickwise.channels c ON c.namespace = n.name LIMIT $2)) RETURNING 1
),
v AS (UPDATE tickwise.notices_version SET version = version + 1 WHERE EXISTS (SELECT FROM r) OR EXISTS (SELECT FROM c))
SELECT greatest((SELECT count(*) FROM r), (SELECT count(*) FROM c))

-- name: removal_rest_notices
-- Delete what came to notification rules of a namespace since its last page. $1 name.
WITH a AS (DELETE FROM tickwise.alerts WHERE namespace = $1), m AS (DELETE FROM tickwise.notices WHERE namespace = $1),
e AS (DELETE FROM tickwise.notices_events WHERE namespace = $1), o AS (DELETE FROM tickwise.notices_noted WHERE namespace = $1),
r AS (DELETE FROM tickwise.notification_rules WHERE namespace = $1), c AS (DELETE FROM tickwise.channels WHERE namespace = $1)
DELETE FROM tickwise.notices_watched WHERE namespace = $1

-- name: removal_is_over
-- Check whether a namespace can go: its removal began more than $2 seconds ago, and it has no job and no run. $1 name.
SELECT coalesce(removing <= tickwise.now() - $2::float8 * interval '1 second', false)
   AND NOT EXISTS (SELECT FROM tickwise.jobs WHERE namespace = $1 AND namespace <> 'default')
   AND NOT EXISTS (SELECT FROM tickwise.lanes l JOIN tickwise.runs r ON r.lane = l.lane WHERE l.namespace = $1)
   AND NOT EXISTS (SELECT FROM tickwise.history WHERE namespace = $1 AND namespace <> 'default')
FROM tickwise.namespaces WHERE name = $1

-- name: removal_rest
-- Delete what came to a namespace since its last page. $1 name.
WITH h AS (DELETE FROM tickwise.holds WHERE namespace = $1), o AS (DELETE FROM tickwise.operations WHERE namespace = $1),
t AS (DELETE FROM tickwise.tasks WHERE namespace = $1), a AS (DELETE FROM tickwise.receipts WHERE starts_with(principal, $1 || '/')),
n AS (DELETE FROM tickwise.tallies_new WHERE namespace = $1), q AS (DELETE FROM tickwise.quota_use WHERE namespace = $1),
g AS (DELETE FROM tickwise.error_groups WHERE namespace = $1), z AS (DELETE FROM tickwise.quota_sizes WHERE namespace = $1), s AS (DELETE FROM tickwise.stops WHERE namespace = $1),
v AS (DELETE FROM tickwise.saved_views WHERE namespace = $1), b AS (DELETE FROM tickwise.objectives WHERE namespace = $1),
w AS (DELETE FROM tickwise.status_pages WHERE namespace = $1), y AS (DELETE FROM tickwise.tallies WHERE namespace = $1),
x AS (DELETE FROM tickwise.environments WHERE namespace = $1), k AS (DELETE FROM tickwise.secrets WHERE namespace = $1)
DELETE FROM tickwise.fires WHERE namespace = $1

-- name: removal_lanes
-- Note that nothing uses the lanes of a namespace any more, so that queues of a former namespace are not listed in a later one; the upkeep
-- frees them. $1 name.
UPDATE tickwise.lanes SET idle = tickwise.now() WHERE namespace = $1

-- name: removal_end
-- The namespace $1 is gone. Forget those that went more than $2 seconds ago.
WITH n AS (DELETE FROM tickwise.namespaces WHERE name = $1 RETURNING name),
old AS (
  DELETE FROM tickwise.namespaces_removed WHERE removed < tickwise.now() - $2::float8 * interval '1 second' AND name <> $1
)
INSERT INTO tickwise.namespaces_removed (removed, name) SELECT tickwise.now(), name FROM n
ON CONFLICT (name) DO UPDATE SET removed = excluded.removed
