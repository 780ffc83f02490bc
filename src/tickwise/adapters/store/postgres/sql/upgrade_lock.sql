-- One upgrade of a database at a time; the lock goes with its session. The number spells "tickwise".
SELECT pg_advisory_lock(8388353586463617381)
