-- Keys that can be taken back: how each came to be, until when it is good, when it was used last.

-- A handful of rows: all that is done to the table here takes milliseconds.
SELECT tickwise.lock_briefly(ARRAY['keys']);

ALTER TABLE tickwise.keys
  ADD COLUMN expires    timestamptz,          -- NULL: it does not expire
  ADD COLUMN used       timestamptz,          -- to the minute or so; NULL: never
  ADD COLUMN revoked    timestamptz,          -- NULL: it is good. See `key_revoke.sql` for what becomes of its digest
  ADD COLUMN prefix     text,                 -- the beginning of the secret, which may be shown; NULL: nothing of it may be
  ADD COLUMN created_by text,                 -- the principal's name; NULL: nobody asked for it
  -- From the label, which programs of the release before write too.
  ADD COLUMN origin     text GENERATED ALWAYS AS (CASE label
    WHEN 'TICKWISE_BOOTSTRAP_KEY' THEN 'setting'
    WHEN 'made at the first start' THEN 'first'
    WHEN 'the command line of this machine' THEN 'local'
    ELSE 'made' END) STORED;
