-- Count fires in the current minute, and say how many there were in it. $1 namespaces, $2 how many more.
INSERT INTO tickwise.fires AS f (minute, namespace, fires)
SELECT date_bin('1 minute', tickwise.now(), to_timestamp(0)), n.namespace, n.fires
FROM unnest($1::text[], $2::bigint[]) AS n(namespace, fires)
ORDER BY n.namespace  -- two that count the same ones wait for each other in one order
ON CONFLICT (namespace, minute) DO UPDATE SET fires = f.fires + excluded.fires
RETURNING namespace, fires
