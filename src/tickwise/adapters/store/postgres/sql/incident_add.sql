-- What somebody noticed. $1 kind, $2 begin, $3 end, $4 who.
INSERT INTO tickwise.incidents (kind, began, ended, who) VALUES ($1, to_timestamp($2::float8), to_timestamp($3::float8), $4)
ON CONFLICT DO NOTHING
