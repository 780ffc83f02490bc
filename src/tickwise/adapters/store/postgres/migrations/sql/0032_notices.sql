-- Notices count the jobs, executors, certificates and keys that their events are of; 0: they were not counted.
SELECT tickwise.lock_briefly(ARRAY['notices']);
ALTER TABLE tickwise.notices ADD COLUMN subjects bigint NOT NULL DEFAULT 0;
