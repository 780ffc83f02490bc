-- A calendar or window goes. $1 namespace, $2 kind, $3 name.
DELETE FROM tickwise.rules WHERE namespace = $1 AND kind = $2 AND name = $3 RETURNING true
