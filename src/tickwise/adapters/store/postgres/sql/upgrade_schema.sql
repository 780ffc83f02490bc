-- All that is ours lives in one schema of the database.
CREATE SCHEMA IF NOT EXISTS tickwise
