-- A session gets its settings. $1 names, $2 values.
SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS s(name, value)
