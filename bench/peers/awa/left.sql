-- Jobs that have not durably ended: those queued and not claimed, and claims that are not closed. (Its view of all jobs
-- says the same, and takes seconds for a few thousand of them.)
SELECT (
  SELECT coalesce(sum(awa.sequence_next_value(queued.seq_name) - awa.sequence_next_value(claimed.seq_name)), 0)
  FROM awa.queue_enqueue_heads AS queued
  JOIN awa.queue_claim_heads AS claimed USING (queue, priority, enqueue_shard)
) + (SELECT count(*) FROM awa.lease_claims)
  + (SELECT coalesce(sum(claimed_count), 0) FROM awa.lease_claim_batches)
  - (SELECT count(*) FROM awa.lease_claim_closures)
  - (SELECT coalesce(sum(closed_count), 0) FROM awa.lease_claim_closure_batches)
