-- name: quota_lock
-- Lock the use of a namespace's quotas, on the day of now. $1 namespace. Returns runs, jobs, bytes, and the age of the count of the last two
-- in seconds.
INSERT INTO tickwise.quota_use AS u (counted, day, runs, jobs, bytes, namespace)
VALUES ('-infinity', (tickwise.now() AT TIME ZONE 'UTC')::date, 0, 0, 0, $1)
ON CONFLICT (namespace) DO UPDATE
SET day = excluded.day, runs = CASE WHEN u.day = excluded.day THEN u.runs ELSE 0 END
RETURNING runs, jobs, bytes, date_part('epoch', tickwise.now() - greatest(counted, tickwise.now() - interval '1 day')) AS age

-- name: quota_write
-- Write the use of quotas that this transaction has locked. $1 namespace, $2 runs, $3 jobs, $4 bytes, $5 whether jobs and bytes were
-- counted anew.
UPDATE tickwise.quota_use
SET runs = $2, jobs = $3, bytes = $4, counted = CASE WHEN $5::boolean THEN tickwise.now() ELSE counted END
WHERE namespace = $1

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
