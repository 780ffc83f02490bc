-- A queue stands still no more. $1 namespace, $2 queue. Whether it did or would have.
DELETE FROM tickwise.holds WHERE namespace = $1 AND queue = $2 RETURNING until > tickwise.now()
