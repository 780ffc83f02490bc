-- name: failures_pending
-- Failures that are not counted yet, and what they said. $1 at most, $2 characters of an error. Each is looked up by its ids.
SELECT n.run_id, n.token, n.last, coalesce(h.namespace, r.namespace) AS namespace,
       coalesce(h.job_id, r.job_id) AS job_id, CASE WHEN n.last THEN h.attempt ELSE a.attempt END AS attempt,
       date_part('epoch', CASE WHEN n.last THEN h.ended ELSE a.ended END) AS ended_at,
       CASE WHEN n.last THEN h.reason ELSE a.reason END AS reason,
       left(CASE WHEN n.last THEN h.error ELSE a.error END, $2) AS error
FROM (SELECT * FROM tickwise.failures_new ORDER BY run_id, token LIMIT $1) n
LEFT JOIN LATERAL (
  SELECT namespace, job_id, attempt, ended, reason, error FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) h ON true
LEFT JOIN LATERAL (SELECT namespace, job_id FROM tickwise.runs r WHERE r.run_id = n.run_id AND h.namespace IS NULL OFFSET 0) r ON true
LEFT JOIN LATERAL (
  SELECT attempt, ended, reason, error FROM tickwise.attempts a
  WHERE NOT n.last AND a.run_id = n.run_id AND a.token = n.token OFFSET 0) a ON true

-- name: failures_jobs
-- The fields of these jobs that fingerprints need. $1 jobs, $2 bytes of a definition; a larger one is left out.
SELECT job_id, name, task_kind, CASE WHEN octet_length(definition) <= $2 THEN definition END AS definition
FROM tickwise.jobs WHERE job_id = ANY($1::uuid[])

-- name: failures_take
-- Take failures that are to be counted, if they are pending and nobody else is counting them. $1 runs, $2 tokens. Returns them.
WITH mine AS MATERIALIZED (
  SELECT run_id, token FROM tickwise.failures_new
  WHERE run_id = ANY($1::uuid[]) AND (run_id, token) IN (SELECT * FROM unnest($1, $2::bigint[]))
  ORDER BY run_id, token FOR UPDATE SKIP LOCKED
)
DELETE FROM tickwise.failures_new f USING mine WHERE f.run_id = mine.run_id AND f.token = mine.token
RETURNING f.run_id, f.token

-- name: error_groups_known
-- Those of these groups that are there. $1 groups.
SELECT group_id FROM tickwise.error_groups WHERE group_id = ANY($1::uuid[])

-- name: error_jobs_shares
-- The number of groups that each of these jobs is in. $1 jobs.
SELECT job_id, count(*)::int AS groups FROM tickwise.error_jobs WHERE job_id = ANY($1::uuid[]) GROUP BY job_id

-- name: error_groups_fold
-- Count failures in their groups, always in one order. $1 namespace, $2 … one array per column. Returns the number of groups that are new.
WITH u AS (
  INSERT INTO tickwise.error_groups AS g (namespace, group_id, failures, first_seen, last_seen, sample_run, sample_attempt, sample_error, reason,
                                          kind, message, task_kind, task)
  SELECT $1, n.group_id, n.failures, to_timestamp(n.first_seen), to_timestamp(n.last_seen), n.sample_run, n.sample_attempt, n.sample_error,
         n.reason, n.kind, n.message, n.task_kind, n.task
  FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::float8[], $6::uuid[], $7::smallint[], $8::text[], $9::text[], $10::text[], $11::text[],
              $12::text[], $13::text[])
    AS n(group_id, failures, first_seen, last_seen, sample_run, sample_attempt, sample_error, reason, kind, message, task_kind, task)
  ORDER BY n.group_id
  ON CONFLICT (group_id) DO UPDATE SET
    failures = g.failures + excluded.failures, first_seen = least(g.first_seen, excluded.first_seen), task = excluded.task,
    last_seen = greatest(g.last_seen, excluded.last_seen),
    sample_run = CASE WHEN excluded.last_seen >= g.last_seen THEN excluded.sample_run ELSE g.sample_run END,
    sample_attempt = CASE WHEN excluded.last_seen >= g.last_seen THEN excluded.sample_attempt ELSE g.sample_attempt END,
    sample_error = CASE WHEN excluded.last_seen >= g.last_seen THEN excluded.sample_error ELSE g.sample_error END
  RETURNING xmax = 0 AS is_new
)
SELECT count(*) FILTER (WHERE is_new) FROM u

-- name: error_jobs_fold
-- Count failures by their jobs. A group with $5 jobs takes no more. $1 groups, $2 jobs, $3 failures, $4 when last.
WITH u AS (
  INSERT INTO tickwise.error_jobs AS e (group_id, job_id, failures, last_seen)
  SELECT n.group_id, n.job_id, n.failures, to_timestamp(n.last_seen)
  FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::float8[]) AS n(group_id, job_id, failures, last_seen)
  JOIN tickwise.error_groups g ON g.group_id = n.group_id
  WHERE g.jobs < $5::int OR EXISTS (SELECT FROM tickwise.error_jobs o WHERE o.group_id = n.group_id AND o.job_id = n.job_id)
  ORDER BY n.group_id, n.job_id
  ON CONFLICT (group_id, job_id) DO UPDATE SET
    failures = e.failures + excluded.failures, last_seen = greatest(e.last_seen, excluded.last_seen)
  RETURNING group_id, xmax = 0 AS is_new
)
UPDATE tickwise.error_groups g SET jobs = g.jobs + c.new
FROM (SELECT group_id, count(*)::int AS new FROM u WHERE is_new GROUP BY group_id) c WHERE g.group_id = c.group_id

-- name: error_hours_fold
-- Count failures by the hour, but for hours that are forgotten. $1 groups, $2 hours, $3 failures, $4 seconds that are kept.
INSERT INTO tickwise.error_hours AS e (group_id, hour, failures)
SELECT n.group_id, to_timestamp(n.hour), n.failures
FROM unnest($1::uuid[], $2::float8[], $3::bigint[]) AS n(group_id, hour, failures)
JOIN tickwise.error_groups g ON g.group_id = n.group_id
WHERE to_timestamp(n.hour) > tickwise.now() - $4::float8 * interval '1 second'
ORDER BY n.group_id, n.hour
ON CONFLICT (group_id, hour) DO UPDATE SET failures = e.failures + excluded.failures

-- name: error_letters_fold
-- Note the groups of dead letters. $1 runs, $2 groups.
INSERT INTO tickwise.error_letters (run_id, group_id)
SELECT n.run_id, n.group_id FROM unnest($1::uuid[], $2::uuid[]) AS n(run_id, group_id) ORDER BY n.run_id
ON CONFLICT DO NOTHING

-- name: error_groups_bound
-- Drop the groups of a namespace beyond its newest $2: the resolved ones first, then those that were seen least recently. $1 namespace.
DELETE FROM tickwise.error_groups WHERE group_id = ANY(ARRAY(
  SELECT group_id FROM tickwise.error_groups_shown WHERE namespace = $1
  ORDER BY status = 'resolved', seen DESC, group_id OFFSET $2))

-- name: error_group_get
-- One group. $1 namespace, $2 group.
SELECT group_id, namespace, reason, kind, message, task_kind, task, failures, jobs, first_seen, last_seen, sample_run, sample_attempt,
       sample_error, decision, decided_at, decided_by, note, ignored_until, ignored_count, status
FROM tickwise.error_groups_shown WHERE group_id = $2 AND namespace = $1

-- name: error_groups_list
-- Groups, the one that was seen last first. $1 namespace, $2 statuses (NULL: any), $3 reason, $4 kind of task, $5 a pattern, $6 job, $7 seen
-- from and $8 first seen from, $9 and $10 the place behind which the page begins, $11 limit.
SELECT group_id, namespace, reason, kind, message, task_kind, task, failures, jobs, first_seen, last_seen, sample_run, sample_attempt,
       sample_error, decision, decided_at, decided_by, note, ignored_until, ignored_count, status, seen,
       octet_length(message) + coalesce(octet_length(sample_error), 0) + coalesce(octet_length(note), 0) AS bytes
FROM tickwise.error_groups_shown g
WHERE namespace = $1
  AND ($2::text[] IS NULL OR status = ANY($2))
  AND ($3::text IS NULL OR reason = $3)
  AND ($4::text IS NULL OR task_kind = $4)
  AND ($5::text IS NULL OR kind ILIKE $5 OR message ILIKE $5 OR task ILIKE $5)
  AND ($6::uuid IS NULL OR EXISTS (SELECT FROM tickwise.error_jobs e WHERE e.group_id = g.group_id AND e.job_id = $6))
  AND ($7::float8 IS NULL OR seen >= to_timestamp($7))
  AND ($8::float8 IS NULL OR begun >= to_timestamp($8))
  AND ($9::float8 IS NULL OR (seen, group_id) < (to_timestamp($9), $10::uuid))
ORDER BY seen DESC, group_id DESC LIMIT $11

-- name: error_group_decide
-- Keep a decision about a group. $1 namespace, $2 group, $3 decision (NULL: open again), $4 by whom, $5 note, $6 until, $7 after how many
-- more failures. Returns a row if there is such a group.
UPDATE tickwise.error_groups
SET decision = $3::text, decided = CASE WHEN $3 IS NOT NULL THEN tickwise.now() END, decided_by = $4, note = $5,
    ignored_until = to_timestamp($6::float8), ignored_count = failures + $7::bigint
WHERE group_id = $2 AND namespace = $1 RETURNING group_id

-- name: error_jobs_list
-- The jobs of a group, those with most failures first. $1 namespace, $2 group, $3 at most.
SELECT e.job_id, e.failures, date_part('epoch', e.last_seen) AS last_seen
FROM tickwise.error_jobs e JOIN tickwise.error_groups g USING (group_id)
WHERE g.group_id = $2 AND g.namespace = $1 ORDER BY e.failures DESC, e.job_id LIMIT $3

-- name: error_hours_list
-- The hours in which groups had failures. $1 namespace, $2 groups, $3 the first hour.
SELECT e.group_id, date_part('epoch', e.hour) AS hour, e.failures
FROM tickwise.error_hours e JOIN tickwise.error_groups g USING (group_id)
WHERE g.group_id = ANY($2::uuid[]) AND g.namespace = $1 AND e.hour >= to_timestamp($3::float8) ORDER BY e.group_id, e.hour

-- name: error_groups_of_runs
-- The groups of dead letters. $1 namespace, $2 runs.
SELECT e.run_id, e.group_id FROM tickwise.error_letters e JOIN tickwise.error_groups g USING (group_id)
WHERE e.run_id = ANY($2::uuid[]) AND g.namespace = $1
