-- name: upgrade_lock
-- Lock the database for one upgrade at a time; the lock ends with its session. The number spells "tickwise". Returns whether the lock was
-- free, after a moment if it was not. No statement waits for it for long: an index that is made beside the work of others waits for each
-- statement that was there before.
SELECT CASE WHEN pg_try_advisory_lock(8388353586463617381) THEN true ELSE (SELECT false FROM pg_sleep(0.1)) END

-- name: indexes_invalid
-- Tickwise's indexes whose creation was interrupted: they are made anew.
DO $$
DECLARE
  broken regclass;
BEGIN
  FOR broken IN
    SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relname IN ('runs_line', 'runs_waits', 'runs_of_job', 'runs_job', 'audit_seals_until', 'audit_seals_of_namespace', 'error_jobs_job', 'jobs_names', 'jobs_repeating', 'jobs_owners', 'jobs_task_kinds', 'jobs_secrets', 'jobs_secrets_once', 'tasks_secrets')
      AND NOT i.indisvalid
  LOOP
    EXECUTE format('DROP INDEX %s', broken);
  END LOOP;
END
$$

-- name: schema_version
-- The migration of the database, and the oldest migration whose programs it serves; no row without one.
SELECT version_num, serves FROM tickwise.schema_version

-- name: schema_version_first
-- The migration of a database that no program since the first release has upgraded.
SELECT version_num, version_num AS serves FROM tickwise.alembic_version

-- name: upgrade_schema
-- Before the migrations of an upgrade, in their transaction. All that is ours lives in one schema of the database. `schema_version` says
-- which migration the database has, and the oldest whose programs it serves. The version that the first programs left in `alembic_version`
-- is carried over.
DO $$
BEGIN
  CREATE SCHEMA IF NOT EXISTS tickwise;
  IF to_regclass('tickwise.schema_version') IS NULL THEN
    CREATE TABLE tickwise.schema_version (
      version_num varchar(32) PRIMARY KEY,
      serves      varchar(32) NOT NULL DEFAULT '0001'
    );
    IF to_regclass('tickwise.alembic_version') IS NOT NULL THEN
      INSERT INTO tickwise.schema_version (version_num) SELECT version_num FROM tickwise.alembic_version;
    END IF;
  END IF;
END
$$

-- name: migration_limits
-- Before each file of a migration, in its transaction: how long a statement waits for a lock. `lock_briefly` leaves a shorter time behind.
SET LOCAL lock_timeout = '30s'

-- name: schema_version_set
-- The database has this migration from now on ($1). The oldest programs that it serves stay as they are noted.
WITH noted AS (UPDATE tickwise.schema_version SET version_num = $1 RETURNING version_num)
INSERT INTO tickwise.schema_version (version_num) SELECT $1 WHERE NOT EXISTS (SELECT FROM noted)

-- name: trigrams_make
-- The extension for the index of names. It is a trusted one: who may create in the database may make it.
CREATE EXTENSION IF NOT EXISTS pg_trgm

-- name: names_index
-- The statement that makes the index of names beside the work of others: the class of operators is where the extension is. One-time jobs,
-- which come by the million, pay nothing for it. NULL: the extension is not there.
SELECT format($$
  CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_names ON tickwise.jobs_lasting USING gin (lower(name) %I.gin_trgm_ops)
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE'$$, n.nspname)
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm'
