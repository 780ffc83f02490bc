-- The partitions by time that there are.
SELECT c.relname FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('tickwise.history'::regclass, 'tickwise.jobs_passing'::regclass)
ORDER BY c.relname
