-- Recipients who have a notice that waits for the others: the process that tries next leaves them out. What joins the notice empties it.
SELECT tickwise.lock_briefly(ARRAY['notices']);
ALTER TABLE tickwise.notices ADD COLUMN served text[] NOT NULL DEFAULT '{}';
