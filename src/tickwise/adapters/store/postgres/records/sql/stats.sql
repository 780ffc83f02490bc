-- name: stats
-- The figures for monitoring, and the $2 queues with the most unfinished runs. Of runs (`runs_seen`) and of timers $1 pages are read at most: a
-- table with more is sampled, and its numbers are the server's own, or while that has none, as much larger as the table is. Up to 1,000 timers
-- are counted by their index, however large the table is: rows that went a moment ago leave it large, and a sample of few rows says nothing.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
size AS MATERIALIZED (
  SELECT pg_relation_size('tickwise.timers') / current_setting('block_size')::float8 AS timers
),
few_timers AS MATERIALIZED (SELECT count(*) AS seen FROM (SELECT FROM tickwise.timers ORDER BY job_id LIMIT 1001) f),
known AS MATERIALIZED (SELECT seen <= 1000 AS timers FROM few_timers),
s AS MATERIALIZED (SELECT lane, state, holder, stands_for FROM tickwise.runs_seen($1::int)),
r AS (
  SELECT coalesce(sum(stands_for) FILTER (WHERE state = {RunState.QUEUED}), 0)::bigint AS queued,
         coalesce(sum(stands_for) FILTER (WHERE holder <> 0), 0)::bigint AS held,
         coalesce(sum(stands_for) FILTER (WHERE state = {RunState.RETRYING}), 0)::bigint AS retrying
  FROM s
),
t AS (
  SELECT count(*) AS seen, pg_stat_get_live_tuples('tickwise.timers'::regclass) AS live
  FROM tickwise.timers TABLESAMPLE SYSTEM (least(100, 100 * $1 * current_setting('block_size')::float8 / greatest(1, pg_relation_size('tickwise.timers'))))
  REPEATABLE (0)
  WHERE NOT (SELECT timers FROM known)
),
g AS (
  SELECT lane, coalesce(sum(stands_for) FILTER (WHERE holder = 0), 0) AS waiting, coalesce(sum(stands_for) FILTER (WHERE holder <> 0), 0) AS held
  FROM s GROUP BY lane
),
q AS (
  SELECT l.namespace, l.queue, sum(g.waiting)::bigint AS waiting, sum(g.held)::bigint AS held
  FROM g JOIN tickwise.lanes l ON l.lane = g.lane
  GROUP BY l.namespace, l.queue
  ORDER BY sum(g.waiting + g.held) DESC, l.namespace COLLATE "C", l.queue COLLATE "C" LIMIT $2
)
SELECT r.queued, r.held, r.retrying,
  greatest(0, date_part('epoch', (SELECT at FROM clock) - (
    SELECT min(h.ready) FROM tickwise.lanes l CROSS JOIN LATERAL (
      SELECT ready FROM tickwise.runs
      WHERE lane = l.lane AND holder = 0 AND ready < 'infinity'
        AND CASE WHEN (SELECT count(*) > 0 FROM tickwise.stops_of_jobs) THEN NOT tickwise.is_stopped(job_id) ELSE true END
      ORDER BY ready LIMIT 1) h
    WHERE l.lane NOT IN (SELECT lane FROM tickwise.lanes_held)))) AS oldest_ready_seconds,
  CASE WHEN (SELECT timers FROM known) THEN (SELECT seen FROM few_timers)
    WHEN size.timers <= $1 THEN t.seen WHEN t.live > t.seen THEN t.live ELSE (t.seen * size.timers / $1)::bigint END AS timers,
  greatest(0, date_part('epoch', (SELECT at FROM clock) - least(
    (SELECT due FROM tickwise.timers WHERE run_id IS NOT NULL AND due < 'infinity' ORDER BY due LIMIT 1),
    (SELECT due FROM tickwise.timers WHERE run_id IS NULL AND due < 'infinity' ORDER BY due LIMIT 1)))) AS timers_late_seconds,
  (SELECT count(*) FROM tickwise.executors WHERE gone IS NULL) AS executors,
  coalesce((SELECT json_agg(json_build_array(q.namespace, q.queue, q.waiting, q.held)) FROM q), '[]')::text AS queues
FROM r, t, size
