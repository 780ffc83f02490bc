-- Calendars or windows by name. $1 namespace, $2 kind, $3 page: names after it, $4 limit.
SELECT namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at
FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND ($3::text IS NULL OR name COLLATE "C" > $3)
ORDER BY name COLLATE "C" LIMIT $4
