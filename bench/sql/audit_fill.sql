-- Entries of past days as changes of jobs leave them, 400 bytes each as they are sealed, with their marks. $1 how many, $2 of how many
-- namespaces, $3 seconds between two.
WITH a AS (
  INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind, target, before, after, detail)
  SELECT tickwise.now() - interval '1 day' - i * $3::float8 * interval '1 second', 'team-' || i % $2::int, 'job.changed', 'key', gen_random_uuid(),
         'ada', '192.0.2.1', left(md5(i::text), 24), 'job', gen_random_uuid()::text,
         '{"cron_expression":"0 3 * * *","labels":{"team":"a"}}', '{"cron_expression":"0 4 * * *","labels":{"team":"b"}}', '{"version":3}'
  FROM generate_series(1, $1::int) i ORDER BY i DESC
  RETURNING at, entry, namespace
)
INSERT INTO tickwise.audit_unsealed (at, entry, namespace) SELECT at, entry, namespace FROM a
