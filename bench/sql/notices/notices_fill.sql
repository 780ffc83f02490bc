-- $1 rules like the one with the id $2: each tenth is about jobs of a label, the others about one job that is not there.
INSERT INTO tickwise.notification_rules (created_at, rule_id, namespace, name, created_by, channels, jobs, events, enabled, body)
SELECT r.created_at, n.id, r.namespace, 'rule ' || n.n, r.created_by, r.channels, CASE WHEN n.n % 10 > 0 THEN ARRAY[n.job] ELSE '{}' END,
       r.events, true,
       (r.body::jsonb || jsonb_build_object('rule_id', n.id, 'name', 'rule ' || n.n,
          'jobs', CASE WHEN n.n % 10 > 0 THEN jsonb_build_array(n.job) ELSE '[]' END,
          'labels', CASE WHEN n.n % 10 > 0 THEN '{}' ELSE jsonb_build_object('team', 'team ' || n.n % 100) END))::text
FROM tickwise.notification_rules r, LATERAL (
  SELECT g AS n, gen_random_uuid() AS id, gen_random_uuid() AS job FROM generate_series(1, $1::int) g) n
WHERE r.rule_id = $2
