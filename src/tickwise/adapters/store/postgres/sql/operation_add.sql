-- Store an operation, unless one of its id is there. $1 id, $2 namespace, $3 kind, $4 request, $5 by whom, $6 how many matched.
INSERT INTO tickwise.operations (created, updated, free, operation_id, namespace, kind, request, created_by, matched)
SELECT at, at, at, $1, $2, $3, $4, $5, $6 FROM (SELECT tickwise.now() AS at) clock
ON CONFLICT DO NOTHING
