-- Queues on hold.
-- from
NOT IN (SELECT namespace, queue FROM tickwise.queues_held)
-- instead
IS NOT NULL
