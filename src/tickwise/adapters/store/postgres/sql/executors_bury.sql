-- Mark as gone whoever let its lease run out. This commits before anything is freed: no claim of theirs can follow, because a
-- claim holds the row shared. While the server was down nobody could renew: it grants everybody one lease from its start.
UPDATE tickwise.executors SET gone = tickwise.now()
WHERE gone IS NULL AND lease < (SELECT tickwise.now())
  AND (SELECT tickwise.started()) + lease_seconds * interval '1 second' < (SELECT tickwise.now())
RETURNING executor
