-- `runs_of_job` serves what this index served, also for programs of the release before.
DROP INDEX CONCURRENTLY IF EXISTS tickwise.runs_job;
