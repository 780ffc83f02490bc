-- Keep a calendar or window, in place of what has its name. $1 namespace, $2 kind, $3 name, $4 body, $5 by whom it is created.
INSERT INTO tickwise.rules AS r (created, updated, version, namespace, kind, name, body, created_by)
VALUES (tickwise.now(), tickwise.now(), 1, $1, $2, $3, $4, $5)
ON CONFLICT (namespace, kind, name) DO UPDATE SET version = r.version + 1, updated = excluded.updated, body = excluded.body
RETURNING namespace, kind, name, body, version, created_by, date_part('epoch', created) AS created_at,
          date_part('epoch', updated) AS updated_at
