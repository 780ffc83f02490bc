-- What monitoring reads. Counted up to $1 rows, beyond that estimated from the server's own counters.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
r AS MATERIALIZED (
  SELECT count(*) FILTER (WHERE state = 1) AS queued, count(*) FILTER (WHERE holder <> 0) AS held,
         count(*) FILTER (WHERE state = 4) AS retrying, count(*) AS seen
  FROM (SELECT state, holder FROM tickwise.runs LIMIT $1) s
),
grown AS (
  SELECT CASE WHEN seen < $1 THEN 1.0::float8
              ELSE greatest(1.0, pg_stat_get_live_tuples('tickwise.runs'::regclass)::float8 / seen) END AS by FROM r
),
t AS (SELECT count(*) AS seen FROM (SELECT FROM tickwise.timers LIMIT $1) s)
SELECT (r.queued * grown.by)::bigint AS queued, (r.held * grown.by)::bigint AS held, (r.retrying * grown.by)::bigint AS retrying,
  greatest(0, date_part('epoch', (SELECT at FROM clock) - (
    SELECT min(h.ready) FROM tickwise.lanes l CROSS JOIN LATERAL (
      SELECT ready FROM tickwise.runs WHERE lane = l.lane AND holder = 0 AND ready < 'infinity' ORDER BY ready LIMIT 1) h
    WHERE l.lane NOT IN (SELECT lane FROM tickwise.lanes_held)))) AS oldest_ready_seconds,
  CASE WHEN t.seen < $1 THEN t.seen ELSE greatest(t.seen, pg_stat_get_live_tuples('tickwise.timers'::regclass)) END AS timers,
  greatest(0, date_part('epoch', (SELECT at FROM clock) - least(
    (SELECT due FROM tickwise.timers WHERE run_id IS NOT NULL AND due < 'infinity' ORDER BY due LIMIT 1),
    (SELECT due FROM tickwise.timers WHERE run_id IS NULL AND due < 'infinity' ORDER BY due LIMIT 1)))) AS timers_late_seconds,
  (SELECT count(*) FROM tickwise.executors WHERE gone IS NULL) AS executors
FROM r, grown, t
