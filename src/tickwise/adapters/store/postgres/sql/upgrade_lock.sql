-- One upgrade of a database at a time; the lock goes with its session. The number spells "tickwise". Whether it was to be had, told after
-- a moment if it was not. No statement waits for it for long: an index that is made beside the work of others waits for each statement that
-- was there before.
SELECT CASE WHEN pg_try_advisory_lock(8388353586463617381) THEN true ELSE (SELECT false FROM pg_sleep(0.1)) END
