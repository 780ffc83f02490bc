-- Keys that get another secret, executors that are bound to namespaces, and operations that know who asked for them.

-- A handful of rows in each: all that is done to the tables here takes milliseconds.
SELECT tickwise.lock_briefly(ARRAY['keys', 'executors', 'operations']);

ALTER TABLE tickwise.keys
  ADD COLUMN rotated   timestamptz,            -- when its present secret took over; NULL: it has its first
  ADD COLUMN rotations int NOT NULL DEFAULT 0; -- the number of its present secret

-- The secrets that a key had before. A row stays as long as its key, so that no such secret becomes good again.
CREATE TABLE tickwise.key_secrets (
  until  timestamptz NOT NULL,                 -- it works until then
  number int NOT NULL,                         -- how often the key had been rotated when it was the present one
  key_id uuid NOT NULL REFERENCES tickwise.keys (key_id) ON DELETE CASCADE,
  digest bytea PRIMARY KEY
);
CREATE INDEX key_secrets_key ON tickwise.key_secrets (key_id, number);

ALTER TABLE tickwise.executors
  ADD COLUMN namespaces text[];                -- it claims runs of these alone; NULL: of each

-- Who asked: looked up again with each page. All NULL: a program of the release before stored it.
ALTER TABLE tickwise.operations
  ADD COLUMN asker_key   uuid,
  ADD COLUMN asker_user  uuid,
  ADD COLUMN asker_owner uuid;
