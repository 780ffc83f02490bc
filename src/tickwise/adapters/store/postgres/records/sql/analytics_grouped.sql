-- name: analytics_grouped
-- The runs {picked}, in groups. {by} the property, {label} the name of the label, {sort} the order, {top} the most groups with a row of their
-- own. `total`: all of them in one row. `kind`: 0 a group, 1 runs without a key, 2 the rest.
WITH picked AS MATERIALIZED (
{picked}
),
labelled AS (
  SELECT j.job_id, j.labels ->> {label}::text AS value FROM tickwise.jobs j
  WHERE {by}::text = 'label' AND j.job_id IN (SELECT p.job_id FROM picked p) AND j.labels ? {label}::text
),
measured AS MATERIALIZED (
  SELECT p.state, greatest(p.attempt - 1, 0) AS retries,
         greatest(0, date_part('epoch', p.ended - p.started)) AS seconds,
         CASE WHEN p.attempt = 1 THEN greatest(0, date_part('epoch', p.started - p.due)) END AS late,
         p.cpu_seconds, p.memory_bytes,
         CASE {by}::text WHEN 'job' THEN p.job_id::text WHEN 'label' THEN l.value WHEN 'namespace' THEN p.namespace
           WHEN 'executor' THEN nullif(p.executor, 0)::text WHEN 'reason' THEN p.reason
           ELSE (floor(date_part('epoch', p.due) / 3600) * 3600)::bigint::text END AS key
  FROM picked p LEFT JOIN labelled l ON l.job_id = p.job_id
),
ranked AS MATERIALIZED (
  SELECT key, row_number() OVER (
      ORDER BY CASE {sort}::text WHEN 'failed' THEN count(*) FILTER (WHERE state = {RunState.FAILED}) WHEN 'seconds' THEN coalesce(sum(seconds), 0)
        WHEN 'cpu' THEN coalesce(sum(cpu_seconds), 0)
        ELSE count(*) END DESC, key COLLATE "C") AS place
  FROM measured WHERE key IS NOT NULL GROUP BY key
),
placed AS (
  SELECT m.*, CASE WHEN m.key IS NULL THEN 1 WHEN r.place <= {top}::bigint THEN 0 ELSE 2 END AS kind,
         CASE WHEN r.place <= {top} THEN r.place END AS place
  FROM measured m LEFT JOIN ranked r ON r.key = m.key
),
rows AS (
  SELECT grouping(kind) = 1 AS total, kind, place, count(*) AS runs,
         count(*) FILTER (WHERE state = {RunState.SUCCESS}) AS success, count(*) FILTER (WHERE state = {RunState.FAILED}) AS failed,
         count(*) FILTER (WHERE state = {RunState.CANCELLED}) AS cancelled, count(*) FILTER (WHERE state = {RunState.SKIPPED}) AS skipped,
         coalesce(sum(retries), 0) AS retries, coalesce(sum(seconds), 0) AS seconds, count(seconds) AS duration_count,
         percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY seconds) AS duration, avg(seconds) AS duration_mean,
         max(seconds) AS duration_most, count(late) AS lateness_count,
         percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY late) AS lateness, avg(late) AS lateness_mean,
         max(late) AS lateness_most,
         coalesce(sum(cpu_seconds), 0) AS cpu_seconds, count(cpu_seconds) AS cpu_count,
         percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY cpu_seconds) AS cpu, avg(cpu_seconds) AS cpu_mean,
         max(cpu_seconds) AS cpu_most, count(memory_bytes) AS memory_count,
         percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY memory_bytes::float8) AS memory,
         avg(memory_bytes::float8) AS memory_mean, max(memory_bytes)::float8 AS memory_most
  FROM placed GROUP BY GROUPING SETS ((kind, place), ())
)
SELECT w.*, r.key, (SELECT count(*) FROM ranked) AS distinct_keys,
       CASE WHEN w.total THEN (SELECT date_part('epoch', min(p.due)) FROM picked p) END AS since,
       CASE {by} WHEN 'job' THEN (SELECT j.name FROM tickwise.jobs j WHERE j.job_id = r.key::uuid LIMIT 1)
         WHEN 'executor' THEN (SELECT e.name FROM tickwise.executors e WHERE e.executor = r.key::bigint) END AS name
FROM rows w LEFT JOIN ranked r ON r.place = w.place
ORDER BY w.total DESC, w.kind, w.place
