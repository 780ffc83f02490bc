-- Keys of people.

SELECT tickwise.lock_briefly(ARRAY['keys']);

ALTER TABLE tickwise.keys
  ADD COLUMN owner_id uuid;             -- the person with whose permissions it works; NULL: it needs nobody's
