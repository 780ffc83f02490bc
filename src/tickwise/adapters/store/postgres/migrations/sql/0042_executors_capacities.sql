-- What an executor counts: resources by name, and its memory in bytes under memory_bytes; how much there is, and how much its runs hold as of
-- its last heartbeat. Three arrays of one length. Empty of programs of the release before, which count nothing.
ALTER TABLE tickwise.executors
  ADD COLUMN capacity_names text[] NOT NULL DEFAULT '{}',
  ADD COLUMN capacity_wholes bigint[] NOT NULL DEFAULT '{}',
  ADD COLUMN capacity_takens bigint[] NOT NULL DEFAULT '{}';
