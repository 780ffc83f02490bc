-- The jobs $1 to $2 of $3, lane $4: seven in ten by cron, one each by interval, on demand and once; a quarter with labels, one in 1,000
-- paused, one in 500 cancelled. Their timers lie from two days on, for 30 days: none fires while something is measured.
WITH n AS (
  SELECT n, bench.job_made(o.at, n, $3::bigint) AS made,
         CASE WHEN n % 1000 = 5 THEN 1 WHEN n % 500 = 9 THEN 2 ELSE 0 END AS standing,
         CASE n % 10 WHEN 7 THEN 'INTERVAL' WHEN 8 THEN 'ON_DEMAND' WHEN 9 THEN 'FUTURE' ELSE 'CRON' END AS kind,
         date_trunc('second', o.at) + interval '2 days' + (n * 7919 % 2592000) * interval '1 second' AS due
  FROM generate_series($1::bigint, $2::bigint) n CROSS JOIN bench.origin o
),
j AS (
  INSERT INTO tickwise.jobs (created, updated, paused, job_id, lane, standing, lasting, recurring, namespace, name, schedule_type, task_kind,
                             created_by, definition, owner, labels, pause_reason, paused_by)
  SELECT made, made, CASE standing WHEN 1 THEN made END, bench.id(made, n), $4::int, standing, true, kind <> 'FUTURE', bench.owner(n),
         (ARRAY['invoice', 'report', 'cleanup', 'import', 'backup', 'export', 'reminder'])[n % 7 + 1] || ' ' || n, kind, 'shell', 'ada',
         CASE kind
           WHEN 'CRON' THEN format('{"schedule_type":"CRON","cron_expression":"%s %s * * *","timezone":"Europe/Berlin","task":{"kind":"shell","command":"run %s"}}', n % 60, n % 24, n)
           WHEN 'INTERVAL' THEN format('{"schedule_type":"INTERVAL","interval_seconds":%s,"task":{"kind":"shell","command":"run %s"}}', 600 + n % 9 * 600, n)
           WHEN 'FUTURE' THEN format('{"schedule_type":"FUTURE","task":{"kind":"shell","command":"run %s"}}', n)
           ELSE format('{"schedule_type":"ON_DEMAND","task":{"kind":"shell","command":"run %s"}}', n) END,
         'team-' || n % 40, CASE WHEN n % 4 = 0 THEN jsonb_build_object('team', 'team-' || n % 40, 'tier', 'gold') END,
         CASE standing WHEN 1 THEN 'on holiday' END, CASE standing WHEN 1 THEN 'ada' END
  FROM n
)
INSERT INTO tickwise.timers (due, job_id, run_id, hold)
SELECT CASE standing WHEN 1 THEN 'infinity' ELSE due END, bench.id(made, n), CASE kind WHEN 'FUTURE' THEN bench.id(due, n) END,
       CASE standing WHEN 1 THEN 'paused' END
FROM n WHERE kind <> 'ON_DEMAND' AND standing <> 2
