-- Queues of a namespace that have a lane or a hold, by name. $1 namespace, $2 only this one (NULL: all).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
h AS (SELECT * FROM tickwise.holds WHERE namespace = $1 AND until > (SELECT at FROM clock)),
c AS (
  SELECT l.queue, count(*) FILTER (WHERE r.state IN (1, 4)) AS queued, count(*) FILTER (WHERE r.state = 2) AS dispatched,
         count(*) FILTER (WHERE r.state = 3) AS running
  FROM tickwise.lanes l LEFT JOIN tickwise.runs r ON r.lane = l.lane
  WHERE l.namespace = $1 AND ($2::text IS NULL OR l.queue = $2)
  GROUP BY l.queue
)
SELECT queue, coalesce(c.queued, 0) AS queued, coalesce(c.dispatched, 0) AS dispatched, coalesce(c.running, 0) AS running,
       h.queue IS NOT NULL AS has_hold, h.begun <= (SELECT at FROM clock) AS held, date_part('epoch', h.begun) AS begin,
       nullif(date_part('epoch', h.until), 'infinity') AS until, h.reason, h.asked_by, date_part('epoch', h.asked) AS asked_at
FROM c FULL JOIN h USING (queue)
WHERE $2 IS NULL OR queue = $2
ORDER BY queue COLLATE "C"
