-- name: queues_list
-- Queues of a namespace that have a lane or a hold, by name. $1 namespace, $2 only this one (NULL: all), $3 pages of the table of runs. A lane
-- that nothing is known to use counts if a run waits there all the same. Of a table with more pages, a lane with many runs has as many as a
-- sample says (`runs_seen`); the others are counted by their index. While many dead rows are kept, those that are in the sample are not.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
h AS (SELECT * FROM tickwise.holds WHERE namespace = $1 AND until > (SELECT at FROM clock)),
s AS MATERIALIZED (
  SELECT lane, count(*) >= 100 OR max(stands_for) = 1 OR (SELECT tickwise.many_dead_runs()) AS is_known,
         ARRAY[coalesce(sum(stands_for) FILTER (WHERE state IN ({RunState.QUEUED}, {RunState.RETRYING})), 0),
               coalesce(sum(stands_for) FILTER (WHERE state = {RunState.DISPATCHED}), 0),
               coalesce(sum(stands_for) FILTER (WHERE state = {RunState.RUNNING}), 0)]::bigint[] AS counts
  FROM tickwise.runs_seen($3) GROUP BY lane
),
n AS (
  SELECT l.queue, l.idle, CASE WHEN s.is_known THEN s.counts ELSE (
      SELECT ARRAY[count(*) FILTER (WHERE r.state IN ({RunState.QUEUED}, {RunState.RETRYING})), count(*) FILTER (WHERE r.state = {RunState.DISPATCHED}),
                   count(*) FILTER (WHERE r.state = {RunState.RUNNING})]
      FROM tickwise.runs r WHERE r.lane = l.lane) END AS counts
  FROM tickwise.lanes l LEFT JOIN s ON s.lane = l.lane
  WHERE l.namespace = $1 AND ($2::text IS NULL OR l.queue = $2)
),
c AS (
  SELECT queue, sum(counts[1])::bigint AS queued, sum(counts[2])::bigint AS dispatched, sum(counts[3])::bigint AS running
  FROM n WHERE idle IS NULL OR counts <> '{0,0,0}' GROUP BY queue
)
SELECT queue, coalesce(c.queued, 0) AS queued, coalesce(c.dispatched, 0) AS dispatched, coalesce(c.running, 0) AS running,
       h.queue IS NOT NULL AS has_hold, h.begun <= (SELECT at FROM clock) AS held, date_part('epoch', h.begun) AS begin,
       nullif(date_part('epoch', h.until), 'infinity') AS until, h.reason, h.asked_by, date_part('epoch', h.asked) AS asked_at
FROM c FULL JOIN h USING (queue)
WHERE $2 IS NULL OR queue = $2
ORDER BY queue COLLATE "C"
