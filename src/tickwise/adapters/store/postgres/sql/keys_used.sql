-- Note that the keys $1 were used.
UPDATE tickwise.keys SET used = tickwise.now() WHERE key_id = ANY($1::uuid[])
