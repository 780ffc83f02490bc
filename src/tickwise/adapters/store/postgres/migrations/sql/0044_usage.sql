-- More of what an attempt used: bytes that its processes read from disks and wrote to them, bytes between it and the network, and the most
-- that it kept in its work folder. NULL where it was not measured: of all attempts before this, of those of programs of the release before,
-- and of functions.
SELECT tickwise.lock_briefly(ARRAY['history', 'attempts']);

ALTER TABLE tickwise.history
  ADD COLUMN read_bytes    bigint,
  ADD COLUMN written_bytes bigint,
  ADD COLUMN network_bytes bigint,
  ADD COLUMN work_bytes    bigint;
ALTER TABLE tickwise.attempts
  ADD COLUMN read_bytes    bigint,
  ADD COLUMN written_bytes bigint,
  ADD COLUMN network_bytes bigint,
  ADD COLUMN work_bytes    bigint;
