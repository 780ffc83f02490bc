-- One calendar or window. $1 namespace, $2 kind, $3 name.
SELECT namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
       date_part('epoch', updated) AS updated_at
FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND name = $3
