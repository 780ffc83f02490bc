-- Notes of a kind: those of these names, or (NULL) all of them up to a number.
SELECT name, facts FROM tickwise.board
WHERE kind = $1 AND ($2::text[] IS NULL OR name = ANY ($2)) AND until > (SELECT tickwise.now())
LIMIT $3
