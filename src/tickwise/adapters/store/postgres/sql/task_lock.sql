-- Versions of one task are numbered one after the other. $1 namespace, $2 task.
SELECT pg_advisory_xact_lock(hashtextextended($2::text, hashtextextended($1::text, 0)))
