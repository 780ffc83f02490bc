-- name: executor_join
-- An executor registers under the number that it drew, with a lease from now on. No row if the number is taken. The identity of the
-- column stays for programs of the release before.
INSERT INTO tickwise.executors (born, lease, lease_seconds, slots, name, queues, labels, functions, results_key, executor, namespaces,
                                capacity_names, capacity_wholes, capacity_takens)
OVERRIDING SYSTEM VALUE
SELECT at, at + $1::float8 * interval '1 second', $1, $2::int, $3::text, $4::text[], $5::text[], $6::text[], $7::bytea, $8::bigint, $9::text[],
       $10::text[], $11::bigint[], $12::bigint[]
FROM (SELECT tickwise.now() AS at) clock
ON CONFLICT (executor) DO NOTHING
RETURNING executor

-- name: executor_return
-- An executor that is gone here, and holds nothing any more, is active again under its number, with a lease from now on. $1 executor, $2 the
-- lease in seconds, $3 functions, $4 the names of what it counts, $5 the whole and $6 the taken amounts.
UPDATE tickwise.executors
SET gone = NULL, settled = false, lease = tickwise.now() + $2::float8 * interval '1 second', lease_seconds = $2, functions = $3::text[],
    held = 0, differs = 0, differing = NULL, capacity_names = $4::text[], capacity_wholes = $5::bigint[], capacity_takens = $6::bigint[]
WHERE executor = $1 AND gone IS NOT NULL AND settled
RETURNING executor

-- name: executor_beat
-- Renew the lease of an active executor, and return the requests to it: one row at least, the first columns the same in all.
-- The first time that a request is told is kept. A request whose attempt is over is told apart (`held` false) so that it can be cleared.
-- `untold`: a hold of a queue or a stop has just begun, and perhaps not every run to give back has been requested.
-- $4 the number of runs of which it knows better than the store (NULL: as before), $5 the highest fencing token that its process has seen,
-- $6 how many runs it holds (NULL: as before), $7 the names of what it counts, $8 the whole and $9 the taken amounts (NULL: as before).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
b AS (
  UPDATE tickwise.executors
  SET lease = (SELECT at FROM clock) + $2::float8 * interval '1 second', lease_seconds = $2,
      functions = coalesce($3::text[], functions), held = coalesce($6::int, held),
      capacity_names = coalesce($7::text[], capacity_names), capacity_wholes = coalesce($8::bigint[], capacity_wholes),
      capacity_takens = coalesce($9::bigint[], capacity_takens), differs = coalesce($4::int, differs),
      differing = CASE WHEN coalesce($4, differs) > 0 THEN coalesce(differing, (SELECT at FROM clock)) END
  WHERE executor = $1 AND gone IS NULL
  RETURNING true AS alive
),
h AS (
  UPDATE tickwise.cancel_requests SET heard = (SELECT at FROM clock)
  WHERE holder = $1 AND heard IS NULL AND (SELECT alive FROM b)
)
SELECT coalesce((SELECT alive FROM b), false), (SELECT date_part('epoch', at) FROM clock), c.run_id, c.kind,
       (SELECT r.holder = c.holder AND r.token = c.token AND (c.kind <> 'return' OR r.state = {RunState.DISPATCHED}) FROM tickwise.runs r WHERE r.run_id = c.run_id OFFSET 0) AS held,
       (SELECT count(*) > 0 FROM tickwise.holds WHERE NOT told AND begun <= (SELECT at FROM clock))
         OR (SELECT count(*) > 0 FROM tickwise.stops WHERE NOT told AND begun <= (SELECT at FROM clock)) AS untold,
       (SELECT tickwise.epoch($5::bigint, NULL)) AS epoch
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT run_id, kind, holder, token FROM tickwise.cancel_requests WHERE holder = $1 OFFSET 0) c ON true

-- name: requests_clear
-- Requests to stop attempts that are over. $1 executor, $2 runs.
DELETE FROM tickwise.cancel_requests c
WHERE holder = $1 AND run_id = ANY($2::uuid[])
  AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token)

-- name: executor_gone
-- The orderly end of an executor begins: it gets nothing from now on.
UPDATE tickwise.executors SET gone = tickwise.now() WHERE executor = $1 AND gone IS NULL

-- name: claims_wait
-- Wait until no claim of this executor is under way on any connection: each holds this row shared. $1 executor.
SELECT FROM tickwise.executors WHERE executor = $1 FOR NO KEY UPDATE

-- name: attempts_release_unknown
-- Release the unstarted runs of an executor that were dispatched by an instant under none of the tokens that it knew then, as if they had
-- never been claimed. $1 executor, $2 those tokens, $3 that instant. Returns the runs. Reads all of `runs`, which is small; an answer is
-- rarely lost.
WITH u AS (
  UPDATE tickwise.runs
  SET holder = 0, token = 0, state = {RunState.QUEUED}, claimed = '-infinity', attempt = attempt - 1, ready = greatest((SELECT tickwise.now()), due, slot)
  WHERE run_id = ANY(ARRAY(
      SELECT run_id FROM tickwise.runs
      WHERE holder = $1 AND state = {RunState.DISPATCHED} AND claimed <= to_timestamp($3::float8) AND token NOT IN (SELECT unnest($2::bigint[]))
      ORDER BY run_id FOR UPDATE))
  RETURNING run_id, job_id, namespace, attempt, state
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, runs, jobs, attempts)
  FROM (SELECT state, namespace, array_agg(run_id) AS runs, array_agg(job_id) AS jobs, array_agg(attempt) AS attempts
        FROM u WHERE CASE WHEN EXISTS (SELECT FROM u) THEN (SELECT tickwise.feed_watched()) END GROUP BY state, namespace) g
)
SELECT run_id FROM u WHERE (SELECT count(*) FROM noted) >= 0

-- name: executors_list
-- Active executors, and those gone within the last hour, with the number of runs that they hold: by a count if the table of runs has up to $1
-- pages, else as each said at its last heartbeat.
WITH size AS MATERIALIZED (SELECT pg_relation_size('tickwise.runs') <= $1 * current_setting('block_size')::bigint AS is_small),
held AS MATERIALIZED (SELECT holder, count(*) AS held FROM tickwise.runs WHERE (SELECT is_small FROM size) AND holder <> 0 GROUP BY holder)
SELECT e.executor, e.name, e.queues, e.labels, e.functions, e.slots, date_part('epoch', e.born) AS registered_at,
       date_part('epoch', e.lease) AS lease_until, date_part('epoch', e.gone) AS gone_at,
       CASE WHEN (SELECT is_small FROM size) THEN coalesce(h.held, 0) WHEN e.settled THEN 0 ELSE e.held END AS held,
       e.differs, date_part('epoch', e.differing) AS differing_since, e.namespaces,
       e.capacity_names, e.capacity_wholes, e.capacity_takens
FROM tickwise.executors e LEFT JOIN held h ON h.holder = e.executor
WHERE e.gone IS NULL OR e.gone > (SELECT tickwise.now()) - interval '1 hour'
ORDER BY e.born DESC, e.executor DESC

-- name: executors_between
-- The executors that were active at some moment between two instants, newest first, with the number of runs as in `executors_list`. $1 pages,
-- $2 and $3 the instants, $4 at most.
WITH size AS MATERIALIZED (SELECT pg_relation_size('tickwise.runs') <= $1 * current_setting('block_size')::bigint AS is_small),
held AS MATERIALIZED (SELECT holder, count(*) AS held FROM tickwise.runs WHERE (SELECT is_small FROM size) AND holder <> 0 GROUP BY holder)
SELECT e.executor, e.name, e.queues, e.labels, e.functions, e.slots, date_part('epoch', e.born) AS registered_at,
       date_part('epoch', e.lease) AS lease_until, date_part('epoch', e.gone) AS gone_at,
       CASE WHEN (SELECT is_small FROM size) THEN coalesce(h.held, 0) WHEN e.settled THEN 0 ELSE e.held END AS held,
       e.differs, date_part('epoch', e.differing) AS differing_since, e.namespaces,
       e.capacity_names, e.capacity_wholes, e.capacity_takens
FROM tickwise.executors e LEFT JOIN held h ON h.holder = e.executor
WHERE e.born <= to_timestamp($3::float8) AND (e.gone IS NULL OR e.gone >= to_timestamp($2::float8))
ORDER BY e.born DESC, e.executor DESC LIMIT $4

-- name: executors_expire
-- Mark executors whose lease ran out as gone. This commits before any run is freed: no claim of theirs can follow, because a
-- claim holds the row shared. While the server was down no executor could renew: each gets one lease from the server's start.
UPDATE tickwise.executors SET gone = tickwise.now()
WHERE gone IS NULL AND lease < (SELECT tickwise.now())
  AND (SELECT tickwise.started()) + lease_seconds * interval '1 second' < (SELECT tickwise.now())
RETURNING executor

-- name: executors_unsettled
-- Executors that are gone, and whose runs may not be free yet.
SELECT executor FROM tickwise.executors WHERE gone IS NOT NULL AND NOT settled ORDER BY executor

-- name: results_keys
-- The keys by which the published results of executors are verified. $1 executors.
SELECT executor, results_key FROM tickwise.executors WHERE executor = ANY($1::bigint[])

-- name: runs_held
-- The runs that these executors hold, at most $2. $1 executors. Reads all of `runs`, which is small; executors are rarely lost.
SELECT run_id, holder FROM tickwise.runs WHERE holder = ANY($1::bigint[]) ORDER BY run_id LIMIT $2

-- name: executors_settled
-- Mark the runs of these executors as freed.
UPDATE tickwise.executors SET settled = true WHERE executor = ANY($1::bigint[])
