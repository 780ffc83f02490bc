-- The channels that a job names itself, by their names (`notify` of its definition).

ALTER TABLE tickwise.jobs ADD COLUMN notify text[];
