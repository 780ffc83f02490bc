-- Whose key this is.
SELECT name, namespace, scopes FROM tickwise.keys WHERE digest = $1
