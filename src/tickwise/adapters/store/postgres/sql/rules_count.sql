-- How many rules there are, and how many of one kind in one namespace. $1 namespace, $2 kind.
SELECT count(*), count(*) FILTER (WHERE namespace = $1 AND kind = $2) FROM tickwise.rules
