-- No alert and no event; $1 whether the namespace notes events, $2 whether an alert of some other job stands.
WITH w AS (DELETE FROM tickwise.notices_watched WHERE NOT $1::boolean),
e AS (DELETE FROM tickwise.alerts WHERE NOT $2::boolean),
i AS (
  INSERT INTO tickwise.notices_watched (namespace, rules) SELECT 'default', 1 WHERE $1 ON CONFLICT DO NOTHING
)
INSERT INTO tickwise.alerts (first_at, last_at, events, alert_id, rule_id, namespace, event, subject, subject_name, severity, state, sentence)
SELECT tickwise.now(), tickwise.now(), 1, gen_random_uuid(), gen_random_uuid(), 'default', 'failure', gen_random_uuid()::text, 'bench', 'warning',
       'open', 'a run failed'
WHERE $2
