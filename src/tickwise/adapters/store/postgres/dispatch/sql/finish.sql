-- name: finish
-- Record final outcomes: delete the run and insert its row of history, in one statement. The fence is (executor, run, token): a run that it
-- does not match is left alone, and the count shows it. $1 executor, $2 … one array per column of the outcomes, those of the usage NULL if none
-- was measured. Returns also the jobs in which a run waits for one of these, and the keys of the slots that these had (namespaces, keys);
-- NULL if there is none.
WITH f AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::float8[], $6::float8[], $7::text[], $8::text[], $9::text[],
                       $10::float8[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[])
    AS f(run_id, token, state, started, ended, reason, error, result, cpu_seconds, memory_bytes, output_bytes, read_bytes, written_bytes,
         network_bytes, work_bytes, image)
),
d AS (
  DELETE FROM tickwise.runs
  WHERE run_id = ANY($2) AND holder = $1 AND (run_id, token) IN (SELECT run_id, token FROM f OFFSET 0)
  RETURNING due, nominal, queued, claimed, holder, run_id, job_id, state AS before, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, watched, limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                failures, crashes, trigger, namespace, reason, error, result, definition, origin, cpu_seconds, memory_bytes, output_bytes, read_bytes,
                                written_bytes, network_bytes, work_bytes, image, cancel_asked, cancel_heard, cancel_error)
  SELECT d.due, d.nominal, d.queued, d.claimed, CASE WHEN f.started > 0 THEN to_timestamp(f.started) END, to_timestamp(f.ended),
         d.holder, f.token, d.run_id, d.job_id, f.state, d.before, d.attempt,
         d.failures + (f.state = {RunState.FAILED})::int, d.crashes, d.trigger, d.namespace,
         f.reason, f.error, f.result, d.definition, d.origin, f.cpu_seconds, f.memory_bytes, f.output_bytes, f.read_bytes, f.written_bytes,
         f.network_bytes, f.work_bytes, f.image,
         CASE f.state WHEN {RunState.CANCELLED} THEN (SELECT c.asked FROM tickwise.cancel_requests c
                                   WHERE c.run_id = d.run_id AND c.token = f.token AND c.kind = 'cancel' OFFSET 0) END,
         CASE f.state WHEN {RunState.CANCELLED} THEN (SELECT c.heard FROM tickwise.cancel_requests c
                                   WHERE c.run_id = d.run_id AND c.token = f.token AND c.kind = 'cancel' OFFSET 0) END,
         CASE f.state WHEN {RunState.CANCELLED} THEN (SELECT c.error FROM tickwise.cancel_requests c
                                   WHERE c.run_id = d.run_id AND c.token = f.token AND c.kind = 'cancel' OFFSET 0) END
  FROM d JOIN f USING (run_id)
)
SELECT count(*), array_agg(job_id) FILTER (WHERE watched), array_agg(namespace) FILTER (WHERE limit_key IS NOT NULL),
       array_agg(limit_key) FILTER (WHERE limit_key IS NOT NULL)
FROM d
