-- Any query: with it a transaction of REPEATABLE READ takes its snapshot, and no vacuum removes what that one may see.
SELECT count(*) FROM pg_class;
