-- The image of an attempt's container, with its digest. NULL: it ran in none, or under a program of the release before.
SELECT tickwise.lock_briefly(ARRAY['history', 'attempts']);

ALTER TABLE tickwise.history ADD COLUMN image text;
ALTER TABLE tickwise.attempts ADD COLUMN image text;
