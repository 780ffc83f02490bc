-- Answers that nobody may repeat any more; how many. $1 at most.
WITH gone AS (
  DELETE FROM tickwise.receipts
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.receipts WHERE expires <= tickwise.now() LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM gone
