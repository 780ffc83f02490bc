-- The limit: the same writes (queue, claim, finish with history) on bare tables, with nothing of a product around them.
DROP SCHEMA IF EXISTS raw CASCADE;
CREATE SCHEMA raw;
CREATE TABLE raw.jobs (job_id uuid PRIMARY KEY, name text NOT NULL, spec text NOT NULL)
  WITH (autovacuum_analyze_threshold = 1000000, autovacuum_vacuum_insert_threshold = 1000000);
CREATE TABLE raw.runs (
  run_id uuid PRIMARY KEY, job_id uuid NOT NULL, ready timestamptz NOT NULL, holder bigint NOT NULL DEFAULT 0,
  token bigint NOT NULL DEFAULT 0, spec text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000,
        autovacuum_analyze_threshold = 2000000000);
CREATE INDEX ON raw.runs (ready);
CREATE TABLE raw.history (
  run_id uuid PRIMARY KEY, job_id uuid NOT NULL, started timestamptz NOT NULL, ended timestamptz NOT NULL, state int NOT NULL
) WITH (autovacuum_analyze_threshold = 1000000, autovacuum_vacuum_insert_threshold = 1000000);
CREATE SEQUENCE raw.fence;
