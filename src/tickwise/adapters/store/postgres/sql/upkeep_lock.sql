-- One scheduler at a time keeps house; the lock goes with its session. The number spells "tickwise", but for its last bit.
SELECT pg_try_advisory_lock(8388353586463617380)
