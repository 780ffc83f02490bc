-- The way by two parents: rows go straight into today's partition.
-- from
INSERT INTO tickwise.jobs (
-- instead
INSERT INTO tickwise.jobs_{day} (
