-- Free runs that became ready more than $2 and at most $1 seconds ago, the most urgent lanes first; queues on hold left out. At most $3.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at)
SELECT r.run_id, date_part('epoch', r.ready), l.lane
FROM tickwise.lanes l CROSS JOIN LATERAL (
  SELECT run_id, ready FROM tickwise.runs
  WHERE lane = l.lane AND holder = 0 AND ready >= (SELECT at FROM clock) - $1::float8 * interval '1 second'
    AND ready < (SELECT at FROM clock) - $2::float8 * interval '1 second'
  ORDER BY ready LIMIT $3) r
WHERE l.lane NOT IN (SELECT lane FROM tickwise.lanes_held)
ORDER BY l.priority DESC, r.ready LIMIT $3
