-- The active.
SELECT count(*) FROM tickwise.executors WHERE gone IS NULL AND lease > clock_timestamp();
