-- What was noticed between two instants, oldest first. $1 and $2 those, $3 at most.
SELECT kind, date_part('epoch', began) AS begin, date_part('epoch', ended) AS end, who
FROM tickwise.incidents WHERE began <= to_timestamp($2::float8) AND ended >= to_timestamp($1::float8)
ORDER BY began, kind, who LIMIT $3
