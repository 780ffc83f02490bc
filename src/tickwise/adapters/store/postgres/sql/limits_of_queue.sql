-- The keys of which a run of this queue waits for a slot. $1 namespace, $2 queue.
SELECT DISTINCT namespace, limit_key FROM tickwise.runs
WHERE namespace = $1 AND limit_key IS NOT NULL AND blocked
  AND lane IN (SELECT lane FROM tickwise.lanes l WHERE l.namespace = $1 AND l.queue = $2)
