-- name: jobs_looked
-- The jobs among {candidates} that a search wants, as far as one look goes: rows with `nth` = $3, wanted or not, end it. $1 namespace, $2 places
-- below it, $3 the most candidates, $4 rows at most, $5 part of the name (as a LIKE pattern), $6 labels (all of one of these), $7 schedule type,
-- $8 task kind, $9 owner, $10 true: one-time jobs alone, false: all but these.
SELECT job_id, listed, nth, wanted FROM (
  SELECT c.job_id, c.listed, c.nth, c.listed < $2::uuid AND c.namespace = $1::text
    AND ($10::boolean IS NULL OR (c.schedule_type = 'FUTURE' OR c.schedule_type = 'IMMEDIATE') = $10)
    AND ($7::text IS NULL OR c.schedule_type = $7)
    AND ($8::text IS NULL OR c.task_kind = $8)
    AND ($9::text IS NULL OR coalesce(c.owner, c.created_by) = $9)
    AND ($6::jsonb[] IS NULL OR c.labels @> ANY($6))
    AND ($5::text IS NULL OR lower(c.name) LIKE lower($5))
    -- A job in `jobs_placed` is wanted there, and counts here.
    AND (c.digest IS NULL OR c.listed <> c.job_id OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = c.job_id OFFSET 0)) AS wanted
  FROM ({candidates}) c OFFSET 0) l
WHERE wanted OR nth = $3::bigint
LIMIT $4

-- name: jobs_in_order
-- The candidates of {source} and the jobs that have a place of their own, by their places.
SELECT *, row_number() OVER () AS nth FROM (
  SELECT * FROM (
    ({source})
    UNION ALL
    (SELECT p.job_id, p.listed, j.namespace, j.name, j.labels, j.schedule_type, j.task_kind, j.owner, j.created_by, j.digest
     FROM tickwise.jobs_placed p
     CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs j WHERE j.job_id = p.job_id OFFSET 0) j
     WHERE p.namespace = $1 AND p.listed < $2 ORDER BY p.listed DESC)) s
  ORDER BY listed DESC LIMIT $3) s

-- name: jobs_in_no_order
-- The candidates of a set, {source}, with their places.
SELECT s.job_id, coalesce(p.listed, s.job_id) AS listed, s.namespace, s.name, s.labels, s.schedule_type, s.task_kind, s.owner, s.created_by,
       s.digest, row_number() OVER () AS nth
FROM (SELECT * FROM ({source}) s LIMIT $3) s
LEFT JOIN LATERAL (SELECT listed FROM tickwise.jobs_placed p WHERE p.job_id = s.job_id AND s.digest IS NOT NULL OFFSET 0) p ON true

-- name: jobs_every
-- A source: all jobs. Ids are made by nodes' clocks, and none is two days ahead: such an id was chosen, and its job has a place of its own.
SELECT job_id, job_id AS listed, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs
WHERE job_id < least($2, tickwise.first_id((SELECT tickwise.now()) + interval '2 days'))
ORDER BY job_id DESC

-- name: jobs_of_namespace
-- A source: the jobs of a namespace other than `default`, by its index.
SELECT job_id, job_id AS listed, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs
WHERE namespace = $1 AND namespace <> 'default' AND job_id < $2
ORDER BY job_id DESC

-- name: jobs_repeating
-- A source: all but one-time jobs, by their index.
SELECT job_id, job_id AS listed, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs_lasting
WHERE job_id < $2 AND schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE'
ORDER BY job_id DESC

-- name: jobs_later
-- A source of one-time jobs with a time: all that last, and those of the others that an index has.
SELECT * FROM (
  (SELECT job_id, job_id AS listed, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
   FROM tickwise.jobs_lasting WHERE job_id < $2 ORDER BY job_id DESC)
  UNION ALL
  (SELECT job_id, job_id AS listed, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
   FROM tickwise.jobs_passing WHERE schedule_type = 'FUTURE' AND schedule_type <> 'IMMEDIATE' AND job_id < $2 ORDER BY job_id DESC)) s
ORDER BY listed DESC

-- name: jobs_marked
-- A source: jobs with one of the marks $11 that few jobs have; a job comes once for each row that marks it. `planned`: a timer, an active run, or
-- that it runs on demand; `failed`: a failed run; `paused` and `cancelled`: how it stands.
SELECT c.job_id, c.job_id AS listed, j.namespace, j.name, j.labels, j.schedule_type, j.task_kind, j.owner, j.created_by, j.digest
FROM (
  SELECT job_id FROM (
    (SELECT job_id FROM tickwise.timers WHERE 'planned' = ANY($11::text[]) AND job_id < $2 ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.runs WHERE 'planned' = ANY($11) AND job_id < $2 ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs_lasting WHERE 'planned' = ANY($11) AND schedule_type = 'ON_DEMAND' AND job_id < $2 ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.history WHERE 'failed' = ANY($11) AND state::int = {RunState.FAILED} AND job_id < $2 ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs WHERE 'paused' = ANY($11) AND standing = {JobStanding.PAUSED} AND job_id < $2 ORDER BY job_id DESC)
    UNION ALL
    (SELECT job_id FROM tickwise.jobs WHERE 'cancelled' = ANY($11) AND standing = {JobStanding.CANCELLED} AND job_id < $2 ORDER BY job_id DESC)) m
  ORDER BY job_id DESC OFFSET 0) c
LEFT JOIN LATERAL (SELECT * FROM tickwise.jobs j WHERE j.job_id = c.job_id OFFSET 0) j ON true
ORDER BY c.job_id DESC

-- name: jobs_with_labels
-- A set: the jobs of all namespaces that have all labels of one of $6, by their index.
SELECT job_id, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs WHERE labels @> ANY($6)

-- name: jobs_with_name
-- A set: the jobs, but for one-time ones, whose name holds a text, by the index of names.
SELECT job_id, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs_lasting WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE' AND lower(name) LIKE lower($5)

-- name: jobs_of_owner
-- A set: the jobs of an owner, but for one-time ones, by their index.
SELECT job_id, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs_lasting
WHERE namespace = $1 AND coalesce(owner, created_by) = $9 AND schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE'

-- name: jobs_of_task_kind
-- A set: the jobs with a kind of task, but for one-time ones, by their index.
SELECT job_id, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs_lasting
WHERE namespace = $1 AND task_kind = $8 AND schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE'

-- name: jobs_of_type
-- A set: the jobs of all namespaces of a schedule type that is none of one-time jobs, by its index.
SELECT job_id, namespace, name, labels, schedule_type, task_kind, owner, created_by, digest
FROM tickwise.jobs_lasting WHERE schedule_type = $7 AND schedule_type <> 'FUTURE'

-- name: jobs_due
-- A set: the jobs with a timer or an active run in the window from $11 to before $12.
SELECT c.job_id, j.namespace, j.name, j.labels, j.schedule_type, j.task_kind, j.owner, j.created_by, j.digest
FROM (
  SELECT job_id FROM tickwise.timers WHERE run_id IS NOT NULL AND due >= to_timestamp($11::float8) AND due < to_timestamp($12::float8)
  UNION ALL
  SELECT job_id FROM tickwise.timers WHERE run_id IS NULL AND due >= to_timestamp($11) AND due < to_timestamp($12)
  UNION ALL
  SELECT job_id FROM tickwise.runs WHERE due >= to_timestamp($11) AND due < to_timestamp($12)
  LIMIT $3) c
LEFT JOIN LATERAL (SELECT * FROM tickwise.jobs j WHERE j.job_id = c.job_id OFFSET 0) j ON true

-- name: names_indexed
-- True if the index of names is there.
SELECT count(*) > 0 FROM pg_index i WHERE i.indexrelid = to_regclass('tickwise.jobs_names') AND i.indisvalid

-- name: jobs_picked_count
-- The number of these jobs that have a status and a next fire, up to a limit. $1 namespace, $2 jobs, $3 statuses, $4 and $5 window of next fires,
-- $6 limit. Planned once.
SELECT count(*) AS number FROM (
  SELECT FROM unnest($2::uuid[]) AS w (job_id)
  CROSS JOIN LATERAL (
    SELECT FROM tickwise.jobs_shown j
    WHERE j.job_id = w.job_id AND j.namespace = $1
      AND ($3::text[] IS NULL OR j.status = ANY($3))
      AND ($4::float8 IS NULL OR j.next_run_at >= $4)
      AND ($5::float8 IS NULL OR j.next_run_at < $5)
    OFFSET 0) j
  LIMIT $6) s

-- name: jobs_picked
-- These jobs in this order, as `jobs_list` has them. $1 namespace, $2 jobs, $3 their places, $4 statuses, $5 and $6 window of next fires, $7 limit.
-- Planned once.
SELECT j.*, l.queue, l.priority, l.requires, w.listed, octet_length(j.definition) AS bytes, w.place
FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS w (job_id, listed, place)
CROSS JOIN LATERAL (
  SELECT * FROM tickwise.jobs_shown j
  WHERE j.job_id = w.job_id AND j.namespace = $1
    AND ($4::text[] IS NULL OR j.status = ANY($4))
    AND ($5::float8 IS NULL OR j.next_run_at >= $5)
    AND ($6::float8 IS NULL OR j.next_run_at < $6)
  OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY place LIMIT $7
