-- The way by the parent: rows go straight into today's partition.
-- from
INSERT INTO tickwise.history (
-- instead
INSERT INTO tickwise.history_{day} (
