-- What the limits of single stages need beside the tables of raw_schema.sql: timers, recurring ones among them, and a start.
CREATE TABLE raw.timers (due timestamptz NOT NULL, job_id uuid PRIMARY KEY, run_id uuid)
  WITH (fillfactor = 90, autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000);
CREATE INDEX ON raw.timers (due);
ALTER TABLE raw.runs ADD COLUMN started timestamptz NOT NULL DEFAULT '-infinity';
