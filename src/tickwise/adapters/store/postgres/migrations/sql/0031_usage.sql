-- The resources that an attempt used, as far as they were measured: of its processes, and of its output. NULL of all attempts before this,
-- of those of programs of the release before, and of quick functions.
SELECT tickwise.lock_briefly(ARRAY['history', 'attempts']);

ALTER TABLE tickwise.history
  ADD COLUMN cpu_seconds  float8,
  ADD COLUMN memory_bytes bigint,
  ADD COLUMN output_bytes bigint;
ALTER TABLE tickwise.attempts
  ADD COLUMN cpu_seconds  float8,
  ADD COLUMN memory_bytes bigint,
  ADD COLUMN output_bytes bigint;
