-- name: namespaces_closed
-- The namespaces that take nothing new, of the namespaces $1; $2 also those that are only closing. The others stay open until this transaction ends.
SELECT tickwise.namespaces_closed($1, $2)
