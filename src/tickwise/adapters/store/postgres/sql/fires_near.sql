-- The store's clock, which rules stand, and whether a timer that needs a decision is due within the horizon. $1 horizon in seconds,
-- $2 those of one-time jobs that would need no decision too.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at)
SELECT date_part('epoch', (SELECT at FROM clock)), (SELECT version FROM tickwise.rules_version),
       EXISTS (SELECT FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT at FROM clock) + $1::float8 * interval '1 second')
       OR $2::boolean AND EXISTS (
         SELECT FROM tickwise.timers WHERE run_id IS NOT NULL AND due <= (SELECT at FROM clock) + $1 * interval '1 second')
