-- Jobs that lie ahead, between a month and a year: $1 to $2 of $5 in all, $3 lane, $4 definition. They were handed in evenly over the
-- last 14 days, so none is past the time for which records are kept.
WITH n AS (
  SELECT n, date_trunc('milliseconds', now() - interval '14 days' + n * (interval '14 days' / $5::bigint)) AS made,
         date_trunc('second', now()) + interval '31 days' + (n * 7919 % 31000000) * interval '1 second' AS at
  FROM generate_series($1::bigint, $2::bigint) n
),
j AS (
  INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind, created_by, definition)
  SELECT made, made, bench.id(made, n), $3::int, true, false, bench.owner(n), 'bench ' || n, 'FUTURE', 'function', 'bench', $4::text FROM n
)
INSERT INTO tickwise.timers (due, job_id, run_id) SELECT at, bench.id(made, n), bench.id(at, n) FROM n
