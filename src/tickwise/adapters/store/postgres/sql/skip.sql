-- Attempts that will not run, for a reason on record: SKIPPED into history.
-- $1 executor, $2 … one array per column. Returns what was taken,
-- the job if a run of it waits for another one, the namespace, and the key of which it was to have a slot.
WITH f AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::float8[], $6::text[], $7::text[], $8::text[])
    AS f(run_id, token, started, ended, reason, error, result)
),
d AS (
  DELETE FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND state = 2 AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)
  RETURNING due, nominal, queued, claimed, holder, run_id, job_id, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                failures, crashes, trigger, namespace, reason, error, result, definition, origin)
  SELECT d.due, d.nominal, d.queued, d.claimed, CASE WHEN f.started > 0 THEN to_timestamp(f.started) END, to_timestamp(f.ended), d.holder,
         f.token, d.run_id, d.job_id, 8, 2, d.attempt, d.failures, d.crashes, d.trigger, d.namespace, f.reason, f.error,
         f.result, d.definition, d.origin
  FROM d JOIN f USING (run_id)
)
SELECT run_id, CASE WHEN (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) THEN d.job_id END, namespace, limit_key FROM d
