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
