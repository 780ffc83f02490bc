-- name: receipt_drop
-- Delete an answer that claims more than was done.
DELETE FROM tickwise.receipts WHERE principal = $1 AND route = $2 AND key = $3

-- name: jobs_digests
-- The namespaces of these ids, and the digests of the bodies that they were made from. $1 ids.
SELECT job_id, namespace, digest FROM tickwise.jobs WHERE job_id = ANY($1::uuid[])

-- name: jobs_keys_taken
-- Those of these keys that jobs of a namespace have. $1 namespace, $2 keys.
SELECT key FROM tickwise.jobs WHERE namespace = $1 AND key = ANY($2::text[]) AND lasting
