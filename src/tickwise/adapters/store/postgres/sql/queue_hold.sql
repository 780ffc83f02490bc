-- A queue stands still for a time, in place of a hold that there is. $1 namespace, $2 queue, $3 from (NULL: now), $4 until, $5 why, $6 who asked.
INSERT INTO tickwise.holds AS h (asked, begun, until, namespace, queue, reason, asked_by)
SELECT at, coalesce(to_timestamp($3::float8), at), coalesce(to_timestamp($4::float8), 'infinity'), $1, $2, $5, $6
FROM (SELECT tickwise.now() AS at) clock
ON CONFLICT (namespace, queue) DO UPDATE
SET asked = excluded.asked, begun = excluded.begun, until = excluded.until, reason = excluded.reason, asked_by = excluded.asked_by, told = false
