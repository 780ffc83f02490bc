-- The version of all rules, and with it each of them; one row at least.
SELECT v.version AS all_version, r.namespace, r.kind, r.name, r.body, r.version, r.created_by, date_part('epoch', r.created) AS created_at,
       date_part('epoch', r.updated) AS updated_at
FROM tickwise.rules_version v LEFT JOIN tickwise.rules r ON true
