-- Operations that ended before this. $1 that instant.
DELETE FROM tickwise.operations WHERE ended < to_timestamp($1::float8)
