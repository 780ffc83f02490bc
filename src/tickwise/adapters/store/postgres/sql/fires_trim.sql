-- Counts of minutes that are over.
DELETE FROM tickwise.fires WHERE minute < tickwise.now() - interval '1 hour'
