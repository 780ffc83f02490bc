-- Before the migrations of an upgrade, in their transaction. All that is ours lives in one schema of the database. `schema_version` says which
-- migration the database has, and the oldest whose programs it serves. What the first programs left in `alembic_version` is carried over.
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
