-- name: receipt_drop
-- An answer that tells of more than was done is not kept after all.
DELETE FROM tickwise.receipts WHERE principal = $1 AND route = $2 AND key = $3

-- name: jobs_digests
-- Whose these ids are, and of which body they were made. $1 ids.
SELECT job_id, namespace, digest FROM tickwise.jobs WHERE job_id = ANY($1::uuid[])
