-- name: release
-- Release attempts that did not end their run: it retries later (RETRYING, a failure is counted) or was given back (QUEUED, no failure). An
-- attempt that retries or had begun stays on record with its number. One that had not begun is not counted, even if its start was recorded
-- (its instant is 0). The token stays, so that a repeat is recognized. $1 executor, $2 … one array per column. Returns the released runs,
-- whether they had begun, and the keys of their slots.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
f AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::float8[], $6::float8[], $7::text[], $8::text[], $9::float8[],
                       $10::float8[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[])
    AS f(run_id, token, target, began, ended, reason, error, retry_at, cpu_seconds, memory_bytes, output_bytes, read_bytes, written_bytes,
         network_bytes, work_bytes, image)
),
o AS MATERIALIZED (
  SELECT r.run_id, r.token, r.due, r.claimed, r.holder, r.attempt, r.namespace, CASE WHEN r.state = {RunState.RUNNING} THEN r.limit_key END AS freed, f.target, f.began, f.ended, f.reason, f.error, f.retry_at,
         f.cpu_seconds, f.memory_bytes, f.output_bytes, f.read_bytes, f.written_bytes, f.network_bytes, f.work_bytes, f.image,
         f.target = {RunState.RETRYING} OR r.state = {RunState.RUNNING} AND f.began > 0 AS counts
  FROM (SELECT * FROM tickwise.runs WHERE run_id = ANY($2) AND holder = $1 FOR UPDATE) r
  JOIN f ON f.run_id = r.run_id AND f.token = r.token
),
u AS (
  UPDATE tickwise.runs r
  SET holder = 0, state = o.target, claimed = '-infinity', started = '-infinity',
      failures = r.failures + CASE o.target WHEN {RunState.RETRYING} THEN 1 ELSE 0 END,
      attempt = r.attempt - CASE WHEN o.counts THEN 0 ELSE 1 END,
      ready = greatest((SELECT at FROM clock), coalesce(to_timestamp(o.retry_at), o.due), r.slot),
      limit_key = NULL, place = NULL, on_unknown = {OnUnknown.RERUN}
  FROM o
  WHERE r.run_id = ANY($2) AND r.run_id = o.run_id
  RETURNING r.run_id, r.job_id, r.namespace, r.attempt, r.state
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, runs, jobs, attempts)
  FROM (SELECT state, namespace, array_agg(run_id) AS runs, array_agg(job_id) AS jobs, array_agg(attempt) AS attempts
        FROM u WHERE CASE WHEN EXISTS (SELECT FROM u) THEN (SELECT tickwise.feed_watched()) END GROUP BY state, namespace) g
),
a AS (
  INSERT INTO tickwise.attempts (claimed, started, ended, token, executor, run_id, attempt, state, reason, error, cpu_seconds,
                                 memory_bytes, output_bytes, read_bytes, written_bytes, network_bytes, work_bytes, image)
  SELECT claimed, CASE WHEN began > 0 THEN to_timestamp(began) END, to_timestamp(ended), token, holder, run_id, attempt, target,
         reason, error, cpu_seconds, memory_bytes, output_bytes, read_bytes, written_bytes, network_bytes, work_bytes, image
  FROM o WHERE counts
  ON CONFLICT DO NOTHING
)
SELECT run_id, counts, namespace, freed FROM o WHERE (SELECT count(*) FROM noted) >= 0
