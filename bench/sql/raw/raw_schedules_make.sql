-- The table of schedules beside those of raw_schema.sql.
CREATE TABLE raw.schedules (job_id uuid PRIMARY KEY, due timestamptz NOT NULL, spec text NOT NULL)
  WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_threshold = 1000000);
CREATE INDEX ON raw.schedules (due);
