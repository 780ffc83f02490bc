-- name: quota_sizes_lock
-- Lock the sizes of a namespace with quotas. $1 namespace. Returns jobs, bytes, and the age of their count in seconds, a day at most.
INSERT INTO tickwise.quota_sizes AS s (counted, jobs, bytes, namespace) VALUES ('-infinity', 0, 0, $1)
ON CONFLICT (namespace) DO UPDATE SET jobs = s.jobs
RETURNING jobs, bytes, date_part('epoch', tickwise.now() - greatest(counted, tickwise.now() - interval '1 day')) AS age

-- name: quota_sizes_write
-- Write the sizes that this transaction has locked. $1 namespace, $2 jobs, $3 bytes, $4 whether they were counted anew.
UPDATE tickwise.quota_sizes
SET jobs = $2, bytes = $3, counted = CASE WHEN $4::boolean THEN tickwise.now() ELSE counted END
WHERE namespace = $1

-- name: quota_runs_lock
-- Lock the number of runs that a namespace asked for, on the day of now. $1 namespace.
INSERT INTO tickwise.quota_use AS u (counted, day, runs, jobs, bytes, namespace)
VALUES ('-infinity', (tickwise.now() AT TIME ZONE 'UTC')::date, 0, 0, 0, $1)
ON CONFLICT (namespace) DO UPDATE
SET day = excluded.day, runs = CASE WHEN u.day = excluded.day THEN u.runs ELSE 0 END
RETURNING runs

-- name: quota_runs_write
-- Write the number of runs that this transaction has locked. $1 namespace, $2 runs.
UPDATE tickwise.quota_use SET runs = $2 WHERE namespace = $1

-- name: quota_runs_rows
-- Make the rows that count the runs of namespaces, where they are missing. $1 namespaces.
INSERT INTO tickwise.quota_use (counted, day, runs, jobs, bytes, namespace)
SELECT '-infinity', (tickwise.now() AT TIME ZONE 'UTC')::date, 0, 0, 0, n.namespace FROM unnest($1::text[]) AS n(namespace) ORDER BY n.namespace
ON CONFLICT DO NOTHING

-- name: quota_runs_take
-- Count runs of today, as far as quotas allow, and wait for no other transaction. $1 namespaces, $2 runs wanted, $3 quotas. Returns for each
-- namespace how many had no room (NULL: another transaction has its row), and whether it has a row.
WITH w AS MATERIALIZED (
  SELECT namespace, wanted, most, (tickwise.now() AT TIME ZONE 'UTC')::date AS today
  FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w(namespace, wanted, most)
),
u AS MATERIALIZED (
  SELECT namespace, day, runs FROM tickwise.quota_use WHERE namespace = ANY($1) FOR UPDATE SKIP LOCKED
),
t AS MATERIALIZED (
  SELECT w.namespace, w.wanted, w.today, s.runs, least(w.wanted, greatest(0, w.most - s.runs)) AS taken
  FROM w JOIN u USING (namespace) CROSS JOIN LATERAL (SELECT CASE WHEN u.day = w.today THEN u.runs ELSE 0 END AS runs) s
),
c AS (
  UPDATE tickwise.quota_use q SET day = t.today, runs = t.runs + t.taken FROM t WHERE q.namespace = t.namespace AND t.taken > 0
)
SELECT w.namespace, t.wanted - t.taken, EXISTS (SELECT FROM tickwise.quota_use q WHERE q.namespace = w.namespace)
FROM w LEFT JOIN t USING (namespace)

-- name: quota_count
-- Count the active jobs of a namespace that last, and the bytes of their definitions and of stored tasks. $1 namespace.
SELECT count(*) AS jobs,
       (coalesce(sum(octet_length(j.definition)), 0)
        + (SELECT coalesce(sum(octet_length(task)), 0) FROM tickwise.tasks WHERE namespace = $1))::bigint AS bytes
FROM tickwise.jobs j
WHERE j.namespace = $1 AND j.lasting AND j.standing <> {JobStanding.CANCELLED}
  AND (j.schedule_type = 'ON_DEMAND'
       OR EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
       OR EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id))

-- name: quota_shown
-- Count the runs of today (NULL: none were counted), the lanes and the rules of a namespace, and the runs that go on, if there is a quota of
-- them (NULL: there is none). $1 namespace.
SELECT (SELECT runs FROM tickwise.quota_use WHERE namespace = $1 AND day = (tickwise.now() AT TIME ZONE 'UTC')::date) AS runs,
       (SELECT count(*) FROM tickwise.lanes WHERE namespace = $1) AS lanes,
       (SELECT count(*) FROM tickwise.rules WHERE namespace = $1 AND kind = 'calendar') AS calendars,
       (SELECT count(*) FROM tickwise.rules WHERE namespace = $1 AND kind = 'window') AS windows,
       (SELECT tickwise.runs_going(namespace) FROM tickwise.run_quotas WHERE namespace = $1) AS concurrent_runs
