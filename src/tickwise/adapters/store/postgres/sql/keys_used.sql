-- Note that the keys $1 were used $2 seconds ago; a later use that is noted stays.
UPDATE tickwise.keys k
SET used = greatest(k.used, tickwise.now() - u.age * interval '1 second')
FROM unnest($1::uuid[], $2::float8[]) AS u(key_id, age)
WHERE k.key_id = u.key_id
