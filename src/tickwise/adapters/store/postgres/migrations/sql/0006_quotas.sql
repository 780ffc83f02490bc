-- Quotas of namespaces, and their use.

SELECT tickwise.lock_briefly(ARRAY['namespaces']);

ALTER TABLE tickwise.namespaces
  ADD COLUMN quotas text;               -- JSON by name; NULL: none, as of all namespaces of programs before

-- How much a namespace with quotas has and did. Who adds to it has the row until the addition is there, or is not.
CREATE TABLE tickwise.quota_use (
  counted   timestamptz NOT NULL,       -- when jobs and bytes were counted; since then they only grow
  day       date NOT NULL,              -- of UTC, on which the runs were asked for
  runs      bigint NOT NULL,
  jobs      bigint NOT NULL,
  bytes     bigint NOT NULL,
  namespace text PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
