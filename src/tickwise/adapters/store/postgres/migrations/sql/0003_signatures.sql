-- The public key of each executor, by which recorders verify the results that it publishes. NULL: a program of before joined, which
-- signs nothing. Empty: it publishes nothing.

SELECT tickwise.lock_briefly(ARRAY['executors']);

ALTER TABLE tickwise.executors ADD COLUMN results_key bytea;
