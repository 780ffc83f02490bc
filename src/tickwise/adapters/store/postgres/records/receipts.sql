-- name: operations_record
-- Record ended operations of one item each, unless an operation of that id exists. $1 ids, $2 namespaces, $3 kinds,
-- $4 requests, $5 by whom, $6 when they were accepted, $7 statuses, $8 problems. One that was accepted for a namespace that is gone leaves
-- nothing in the namespace that has its name now. Returns the ids of those that were recorded.
INSERT INTO tickwise.operations (created, updated, ended, free, operation_id, matched, done, refused, namespace, kind, request, created_by,
                                 status, problems)
SELECT to_timestamp(created), at, at, at, operation_id, 1, CASE status WHEN 'done' THEN 1 ELSE 0 END, CASE status WHEN 'done' THEN 0 ELSE 1 END,
       namespace, kind, request, created_by, status, problems
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[], $8::text[])
       o(operation_id, namespace, kind, request, created_by, created, status, problems),
     (SELECT tickwise.now() AS at) clock
WHERE NOT EXISTS (
  SELECT FROM tickwise.namespaces_removed r JOIN tickwise.namespaces n USING (name)
  WHERE r.name = o.namespace AND to_timestamp(o.created) <= r.removed)
ORDER BY operation_id
ON CONFLICT DO NOTHING
RETURNING operation_id

-- name: receipt_take
-- Keep an answer under a client's key, unless an unexpired one exists. This waits for a concurrent request of the same key. Returns one row
-- if it was kept.
INSERT INTO tickwise.receipts AS r (expires, status, principal, route, key, body_digest, body)
VALUES (tickwise.now() + $7::float8 * interval '1 second', $5, $1, $2, $3, $4, $6)
ON CONFLICT (principal, route, key) DO UPDATE
SET expires = excluded.expires, status = excluded.status, body_digest = excluded.body_digest, body = excluded.body
WHERE r.expires <= tickwise.now()
RETURNING 1

-- name: receipt_find
-- The answer kept under a client's key.
SELECT body_digest, status, body FROM tickwise.receipts
WHERE principal = $1 AND route = $2 AND key = $3 AND expires > tickwise.now()
