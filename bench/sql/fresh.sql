-- As before the first upgrade: no table has statistics afterwards, as on the first day of an installation.
DROP SCHEMA IF EXISTS tickwise CASCADE;
DROP SCHEMA IF EXISTS raw CASCADE;
