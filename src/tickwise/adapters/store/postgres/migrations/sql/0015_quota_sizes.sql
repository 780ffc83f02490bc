-- The sizes of a namespace with quotas: jobs and bytes. `quota_use` counts its runs of a day alone from here on. An addition locks the sizes
-- first; the runs are locked for the writes of the addition alone, and never waited for by a scheduler. The columns `counted`, `jobs` and
-- `bytes` of `quota_use` serve programs of the release before.
CREATE TABLE tickwise.quota_sizes (
  counted   timestamptz NOT NULL,       -- when jobs and bytes were counted; since then they only grow
  jobs      bigint NOT NULL,
  bytes     bigint NOT NULL,
  namespace text PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
