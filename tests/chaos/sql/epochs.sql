-- The epochs of the store, the oldest first.
SELECT epoch, cause, differed FROM tickwise.epochs ORDER BY epoch
