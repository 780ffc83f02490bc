-- Begin to take timers. No rule changes until this transaction ends: what a timer is held back by still stands when that is written.
-- The number spells "tickwise", but for its last bits.
BEGIN;
SELECT pg_advisory_xact_lock_shared(8388353586463617382)
