-- What roles that run apart keep in the store: its own name, and how far what came through a broker is applied.

-- All that is locked here is locked at first and for milliseconds: nothing below reads a table that grows.
SELECT tickwise.lock_briefly(ARRAY['executors', 'operations']);

-- Where programs of 0001 look for the version. It stays as they need it, until a later migration drops it.
CREATE TABLE IF NOT EXISTS tickwise.alembic_version (version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO tickwise.alembic_version (version_num) VALUES ('0001') ON CONFLICT DO NOTHING;

-- The name of this store among others. What belongs to it elsewhere is marked with it.
CREATE TABLE tickwise.cluster (
  cluster_id uuid NOT NULL DEFAULT gen_random_uuid(),
  single     boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO tickwise.cluster DEFAULT VALUES;

-- Up to which number the results that an executor published are applied. It goes with its executor.
CREATE TABLE tickwise.results_applied (
  number   bigint NOT NULL,
  executor bigint PRIMARY KEY REFERENCES tickwise.executors ON DELETE CASCADE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Up to which time of the broker the requests of a partition are applied.
CREATE TABLE tickwise.requests_applied (
  until     timestamptz NOT NULL,
  partition int PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Something that was accepted may turn out to be impossible.
ALTER TABLE tickwise.operations
  DROP CONSTRAINT operations_status_check,
  ADD CONSTRAINT operations_status_check CHECK (status IN ('running', 'done', 'cancelled', 'failed'));

-- What processes tell each other where there is no Redis. Unlogged: nothing here is worth a write to the log, and after
-- a crash of the server it may be empty.

-- Notes, each until its time is over.
CREATE UNLOGGED TABLE tickwise.board (
  until timestamptz NOT NULL,
  kind  text NOT NULL,
  name  text NOT NULL,
  facts text NOT NULL,                -- JSON
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- How far ahead of now each caller of the API is, by the pace that it is held to.
CREATE UNLOGGED TABLE tickwise.paces (
  until   timestamptz NOT NULL,
  granted int NOT NULL,               -- requests that the last count let through
  who     text PRIMARY KEY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
