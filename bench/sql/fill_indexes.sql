-- The indexes of timers that are put back when it is full: what drops each, what makes it again.
SELECT format('DROP INDEX %I.%I', schemaname, indexname), indexdef
FROM pg_indexes WHERE schemaname = 'tickwise' AND tablename = 'timers' AND indexname NOT LIKE '%pkey'
