-- name: stats
-- The figures for monitoring, but for those of timers (`stats_timers`), and the $2 queues with the most unfinished runs. Of runs $1 pages are
-- read at most (`runs_seen`): a table with more is sampled, and its numbers are the server's own, or while that has none, as much larger as the
-- table is. The database role of executors may not read timers, and `sees_timers` says so.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
s AS MATERIALIZED (SELECT lane, state, holder, stands_for FROM tickwise.runs_seen($1::int)),
r AS (
  SELECT coalesce(sum(stands_for) FILTER (WHERE state = {RunState.QUEUED}), 0)::bigint AS queued,
         coalesce(sum(stands_for) FILTER (WHERE holder <> 0), 0)::bigint AS held,
         coalesce(sum(stands_for) FILTER (WHERE state = {RunState.RETRYING}), 0)::bigint AS retrying
  FROM s
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
  has_table_privilege('tickwise.timers', 'SELECT') AS sees_timers,
  (SELECT count(*) FROM tickwise.executors WHERE gone IS NULL) AS executors,
  coalesce((SELECT json_agg(json_build_array(q.namespace, q.queue, q.waiting, q.held)) FROM q), '[]')::text AS queues
FROM r
