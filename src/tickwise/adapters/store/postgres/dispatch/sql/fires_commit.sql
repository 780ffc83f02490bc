-- name: fires_commit
-- Commit the decisions for taken timers: the timers move on or are deleted, and their runs and skips are recorded, unless a run of that
-- name is active or has ended. $1 jobs, $2 due times as taken, $3 next due times (NULL: never again), $4 … $9 the timer's other columns
-- then; $10 … one array per column of the runs, the last: it is settled if no run of its job is unfinished; $19 … of the skips. An empty
-- array is a column of NULLs. A skip for a pause names its author and reason: the job keeps them until it is planned, paused or resumed
-- anew. No other transaction makes a run of these names while this one has the timers, so an existing one is seen, and the insert need not
-- ask each unique index first (ON CONFLICT took 2 us a run).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
f AS MATERIALIZED (
  SELECT job_id, to_timestamp(taken) AS taken, to_timestamp(due) AS due, to_timestamp(since) AS since, hold, nullif(fired, 0) AS fired,
         to_timestamp(minute) AS minute, nullif(in_minute, 0) AS in_minute, zone_data
  FROM unnest($1::uuid[], $2::float8[], $3::float8[], $4::float8[], $5::text[], $6::bigint[], $7::float8[], $8::int[], $9::text[])
    AS f(job_id, taken, due, since, hold, fired, minute, in_minute, zone_data)
),
moved AS (
  UPDATE tickwise.timers t
  SET due = f.due, since = f.since, hold = f.hold, fired = f.fired, minute = f.minute, in_minute = f.in_minute,
      zone_data = f.zone_data, run_id = CASE WHEN f.hold IS NULL THEN t.run_id END
  FROM f WHERE t.job_id = ANY($1) AND t.job_id = f.job_id AND t.due = f.taken AND f.due IS NOT NULL
  RETURNING t.job_id
),
ended AS (
  DELETE FROM tickwise.timers t USING f
  WHERE t.job_id = ANY(ARRAY(SELECT job_id FROM f WHERE due IS NULL)) AND t.job_id = f.job_id AND t.due = f.taken
  RETURNING t.job_id
),
held AS MATERIALIZED (SELECT job_id FROM moved UNION ALL SELECT job_id FROM ended),
s AS (
  INSERT INTO tickwise.history (due, until, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                                trigger, occurrences, namespace, reason, error)
  SELECT to_timestamp(n.nominal), CASE WHEN n.occurrences > 1 THEN to_timestamp(n.until) END, (SELECT at FROM clock),
         (SELECT at FROM clock), 0, 0, n.run_id, n.job_id, {RunState.SKIPPED}, {RunState.QUEUED}, 0, 0, 0, n.trigger, nullif(n.occurrences, 1), j.namespace, n.reason,
         CASE WHEN n.reason = 'paused' THEN concat(n.error, j.pause) ELSE n.error END
  FROM unnest($19::uuid[], $20::uuid[], $21::float8[], $22::float8[], $23::int[], $24::text[], $25::text[], $26::smallint[])
         AS n(job_id, run_id, nominal, until, occurrences, reason, error, trigger)
  JOIN held USING (job_id)
  CROSS JOIN LATERAL (SELECT namespace, CASE WHEN standing = {JobStanding.PAUSED} THEN concat(' by ' || paused_by, ': ' || pause_reason) END AS pause
                      FROM tickwise.jobs j WHERE j.job_id = n.job_id OFFSET 0) j
  WHERE (SELECT true FROM tickwise.runs r WHERE r.run_id = n.run_id OFFSET 0) IS NULL
  ON CONFLICT DO NOTHING
),
r AS (
  INSERT INTO tickwise.runs (due, nominal, ready, queued, run_id, job_id, lane, trigger, overlap, own, namespace, spec, origin)
  SELECT to_timestamp(n.due), nullif(to_timestamp(n.nominal), to_timestamp(n.due)),
         greatest(tickwise.place(to_timestamp(n.due)), (SELECT at FROM clock)), (SELECT at FROM clock), n.run_id, n.job_id, j.lane,
         n.trigger,
         CASE WHEN n.settles AND (o.has IS NULL OR (SELECT true FROM tickwise.runs o
                                                    WHERE o.job_id = n.job_id AND (o.trigger = {Trigger.BACKFILL}) = (n.trigger = {Trigger.BACKFILL}) LIMIT 1) IS NULL)
              THEN -n.overlap ELSE n.overlap END,
         n.definition IS NOT NULL, j.namespace,
         coalesce(n.definition, CASE WHEN octet_length(j.definition) <= 8192 THEN j.definition END), n.origin
  FROM unnest($10::uuid[], $11::uuid[], $12::float8[], $13::smallint[], $14::text[], $15::uuid[], $16::float8[], $17::smallint[],
              $18::boolean[])
         AS n(job_id, run_id, due, trigger, definition, origin, nominal, overlap, settles)
  JOIN held USING (job_id)
  CROSS JOIN LATERAL (
    SELECT lane, namespace, definition FROM tickwise.jobs WHERE job_id = n.job_id AND lasting
    UNION ALL SELECT lane, namespace, definition FROM tickwise.jobs WHERE job_id = n.job_id AND NOT lasting LIMIT 1) j
  CROSS JOIN LATERAL (SELECT (SELECT true FROM tickwise.runs o WHERE o.job_id = n.job_id LIMIT 1) AS has OFFSET 0) o
  WHERE (SELECT true FROM tickwise.history h WHERE h.run_id = n.run_id OFFSET 0) IS NULL
    AND (o.has IS NULL OR (SELECT true FROM tickwise.runs r WHERE r.run_id = n.run_id OFFSET 0) IS NULL)
  RETURNING run_id, job_id, namespace
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.QUEUED} AS state, namespace, 0::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM r WHERE CASE WHEN EXISTS (SELECT FROM r) THEN (SELECT tickwise.feed_watched()) END GROUP BY namespace) g
)
SELECT count(*) FROM r WHERE (SELECT count(*) FROM noted) >= 0
