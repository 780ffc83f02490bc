-- name: departures_seen
-- All of them: the namespaces that are leaving or have left, and how many changes wait for each.
SELECT d.namespace, d.state, d.goal, d.cleaned, date_part('epoch', d.begun) AS begun,
       (SELECT count(*) FROM (SELECT FROM tickwise.shard_changes c WHERE c.namespace = d.namespace LIMIT 100001) s) AS changes
FROM tickwise.shard_departures d ORDER BY d.namespace

-- name: namespaces_foreign
-- Namespaces that have a job or an active run here, of those that are placed elsewhere ($1) and neither leave nor arrive.
SELECT n.namespace FROM unnest($1::text[]) AS n(namespace)
WHERE NOT EXISTS (SELECT FROM tickwise.shard_departures d WHERE d.namespace = n.namespace)
  AND NOT EXISTS (SELECT FROM tickwise.shard_arrivals a WHERE a.namespace = n.namespace AND a.state <> 'arrived')
  AND (EXISTS (SELECT FROM tickwise.jobs j WHERE j.namespace = n.namespace) OR EXISTS (SELECT FROM tickwise.runs r WHERE r.namespace = n.namespace))
ORDER BY n.namespace

-- name: arrivals_seen
-- All of them.
SELECT namespace, state, source FROM tickwise.shard_arrivals ORDER BY namespace

-- name: namespaces_here
-- The namespaces of this database: those with a row, and those with a lane, as of programs that made none.
SELECT name FROM tickwise.namespaces UNION SELECT namespace FROM tickwise.lanes ORDER BY 1
