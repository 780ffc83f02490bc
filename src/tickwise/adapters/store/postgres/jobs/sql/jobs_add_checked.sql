-- name: jobs_add_checked
-- Store those of new jobs whose ids and keys are free, each with its first run or its timer; the ids that were stored.
-- $1 horizon in seconds, $2 … one array per column; due NULL: now, infinite: never.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
n AS MATERIALIZED (
  SELECT n.*, (SELECT at FROM clock) AS at, coalesce(to_timestamp(n.due), (SELECT at FROM clock)) AS fires
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[],
              $10::boolean[], $11::uuid[], $12::float8[], $13::boolean[], $14::text[], $15::bytea[], $16::text[], $17::text[],
              $18::text[], $19::text[], $20::text[])
    WITH ORDINALITY
    AS n(job_id, namespace, name, schedule_type, task_kind, definition, lane, created_by, recurring, run_id, due, lasting,
         key, digest, labels, owner, calendars, zone_data, secrets, place)
),
j AS (
  INSERT INTO tickwise.jobs (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind,
                             created_by, definition, owner, key, labels, digest, calendars, secrets)
  SELECT at, at, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind, created_by, definition, owner,
         key, labels::jsonb, digest, (SELECT array_agg(c) FROM jsonb_array_elements_text(calendars::jsonb) c),
         (SELECT array_agg(c) FROM jsonb_array_elements_text(secrets::jsonb) c)
  FROM n
  -- The primary key cannot see a job of that id on the other side of the partitioning.
  WHERE NOT EXISTS (SELECT FROM tickwise.jobs o WHERE o.job_id = n.job_id AND o.lasting <> n.lasting)
  ORDER BY place
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
-- Of two with one id in this batch, the first was stored.
made AS (
  SELECT DISTINCT ON (n.job_id) n.* FROM n JOIN j USING (job_id) ORDER BY n.job_id, n.place
),
t AS (
  INSERT INTO tickwise.timers (due, job_id, run_id, zone_data)
  SELECT fires, job_id, run_id, zone_data FROM made
  WHERE (run_id IS NULL OR fires > at + $1::float8 * interval '1 second') AND fires < 'infinity'
),
p AS (
  INSERT INTO tickwise.jobs_placed (listed, job_id, namespace)
  SELECT listed, job_id, namespace
  FROM (SELECT tickwise.listed(at, job_id) AS listed, job_id, namespace FROM made WHERE digest IS NOT NULL) chosen
  WHERE listed IS NOT NULL
  ON CONFLICT DO NOTHING
),
r AS (
  INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, spec)
  SELECT fires, greatest(fires, at), at, run_id, job_id, lane, namespace,
         CASE WHEN octet_length(definition) <= 8192 THEN definition END
  FROM made WHERE run_id IS NOT NULL AND fires <= at + $1::float8 * interval '1 second'
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM made WHERE (SELECT tickwise.feed_watched()) AND run_id IS NOT NULL AND fires <= at + $1::float8 * interval '1 second' GROUP BY namespace) g
)
SELECT job_id FROM j WHERE (SELECT count(*) FROM noted) >= 0
