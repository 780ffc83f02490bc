-- name: feed_watch
-- Let changes be noted for $1 seconds from now on. Returns whether they were noted all the time before.
INSERT INTO tickwise.feed_watch AS w (until) VALUES (tickwise.now() + $1::float8 * interval '1 second')
ON CONFLICT (single) DO UPDATE SET until = greatest(w.until, excluded.until), floor = CASE WHEN w.until > tickwise.now() THEN w.floor END
RETURNING floor IS NOT NULL

-- name: feed_present
-- The snapshot of now. Nothing is read.
SELECT pg_current_snapshot()::text

-- name: feed_under_way
-- True if a transaction is under way that began to write before a snapshot. $1 that snapshot.
SELECT pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax($1::text::pg_snapshot)

-- name: feed_begin
-- From now on the feed is complete, unless it was before; what was noted in an earlier time of watching goes.
WITH b AS (
  UPDATE tickwise.feed_watch SET floor = pg_current_snapshot() WHERE floor IS NULL RETURNING floor
),
m AS (DELETE FROM tickwise.feed_marks WHERE (SELECT true FROM b))
DELETE FROM tickwise.feed f WHERE f.transaction < (SELECT pg_snapshot_xmin(floor) FROM b)

-- name: feed_mark
-- Remember what is visible now, at most once in $1 seconds.
INSERT INTO tickwise.feed_marks (at, visible)
SELECT tickwise.now(), pg_current_snapshot()
WHERE NOT EXISTS (SELECT FROM tickwise.feed_marks WHERE at > tickwise.now() - $1::float8 * interval '1 second')

-- name: feed_trim
-- Drop what has been visible for $1 seconds. By one process at a time; the others leave it to that one.
WITH w AS MATERIALIZED (SELECT floor FROM tickwise.feed_watch WHERE floor IS NOT NULL FOR UPDATE SKIP LOCKED),
m AS MATERIALIZED (
  SELECT at, visible FROM tickwise.feed_marks
  WHERE at <= tickwise.now() - $1::float8 * interval '1 second' AND (SELECT true FROM w) ORDER BY at DESC LIMIT 1
),
u AS (UPDATE tickwise.feed_watch SET floor = (SELECT visible FROM m) WHERE (SELECT true FROM m)),
d AS (DELETE FROM tickwise.feed_marks WHERE at <= (SELECT at FROM m))
DELETE FROM tickwise.feed WHERE transaction < (SELECT pg_snapshot_xmax(visible) FROM m)
  AND pg_visible_in_snapshot(transaction, (SELECT visible FROM m))

-- name: feed_read
-- The changes that a place does not have, in the order of their transactions, and what is visible in the same moment. $1 and $2 the place:
-- all from this number on, and these below it. $3 namespaces (NULL: all), $4 batches at most. One row at least.
WITH s AS MATERIALIZED (
  SELECT pg_current_snapshot()::text AS visible, (SELECT floor::text FROM tickwise.feed_watch) AS floor,
         (SELECT max(epoch) FROM tickwise.epochs) AS epoch
)
SELECT s.visible, s.floor, s.epoch, f.transaction::text::int8 AS transaction, f.batch, date_part('epoch', f.at), f.state, f.namespace,
       array_send(f.runs), array_send(f.jobs), f.attempt,
       CASE WHEN f.attempt IS NULL THEN array_send(f.attempts) END
FROM s LEFT JOIN LATERAL (
  SELECT * FROM (
    (SELECT * FROM tickwise.feed WHERE transaction >= $1::text::xid8 AND ($3::text[] IS NULL OR namespace = ANY($3))
     ORDER BY transaction, batch LIMIT $4)
    UNION ALL
    (SELECT * FROM tickwise.feed WHERE transaction = ANY($2::text[]::xid8[]) AND ($3 IS NULL OR namespace = ANY($3))
     ORDER BY transaction, batch LIMIT $4)) u
  ORDER BY transaction, batch LIMIT $4) f ON true

-- name: feed_whole
-- All batches of one transaction. $1 its number, $2 namespaces (NULL: all).
SELECT transaction::text::int8 AS transaction, batch, date_part('epoch', at), state, namespace, array_send(runs), array_send(jobs), attempt,
       CASE WHEN attempt IS NULL THEN array_send(attempts) END
FROM tickwise.feed WHERE transaction = $1::text::xid8 AND ($2::text[] IS NULL OR namespace = ANY($2)) ORDER BY batch

-- name: feed_labels
-- The labels of these jobs, of those that have any.
SELECT job_id, labels::text FROM tickwise.jobs WHERE job_id = ANY($1::uuid[]) AND labels IS NOT NULL
