-- name: starts_settle
-- Settle the starts of attempts whose overlap is open, one of each job at most: each starts, waits, or ends skipped, by the unfinished runs
-- before it. $1 executor, $2 runs, $3 tokens, $4 instants, $5 their `on_unknown`. Returns the runs that this executor still holds, the
-- verdict on each ('start', 'wait', 'skip'), whether it was requested back meanwhile (then it waits, for `settle_requests`), and the runs
-- that were requested to stop in favour of it (NULL: none). Its reasons and sentences are those of `domain/rules/sentences.py`.
-- And, with the verdict 'passed' and when they were ready and their lane, the runs that can be claimed and were locked here: claims passed
-- over them meanwhile.
--
-- This transaction has locked the lines of these runs (`lines_lock`): no other run starts there. Rows that end meanwhile are waited for and
-- drop out, so the runs that are found are unfinished, and a marked one (`watched`) wakes others at its end. They are found by ids alone:
-- under a condition, a row that changed while it was waited for would drop out too. However many wait, each start looks at a few of them:
-- one that waits is before it or is not (`runs_waits`), and runs that were let start are found apart from those that wait (`runs_line`, and
-- `runs_of_job` for the fires that wait for nobody).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
b AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::smallint[]) AS b(run_id, token, started, on_unknown)),
own AS MATERIALIZED (
  SELECT r.* FROM b CROSS JOIN LATERAL (
    SELECT run_id, job_id, due, overlap, trigger, (trigger = {Trigger.BACKFILL})::int AS line FROM tickwise.runs WHERE run_id = b.run_id OFFSET 0) r
),
near AS MATERIALIZED (
  SELECT run_id FROM own
  UNION ALL
  -- Runs that were let start, and runs before it under any policy.
  SELECT n.run_id FROM own x CROSS JOIN LATERAL (
    SELECT run_id FROM tickwise.runs r
    WHERE r.job_id = x.job_id AND (r.trigger = {Trigger.BACKFILL})::int = x.line AND (r.overlap > 0)::int = 0
      AND (NOT r.blocked OR r.limit_key IS NOT NULL) AND (r.overlap <> {Overlap.ALLOW} OR r.trigger <> {Trigger.SCHEDULE})
      AND (r.overlap < 0 OR r.state > {RunState.QUEUED} OR (r.due, r.run_id) < (x.due, x.run_id))
    OFFSET 0) n
  UNION ALL
  -- The runs before it that are yet to be settled. No more than the policy counts to are needed, unless all of them are replaced.
  SELECT n.run_id FROM own x CROSS JOIN LATERAL (
    SELECT run_id FROM tickwise.runs r
    WHERE r.job_id = x.job_id AND (r.trigger = {Trigger.BACKFILL})::int = x.line AND (r.overlap > 0)::int = 1
      AND (NOT r.blocked OR r.limit_key IS NOT NULL) AND (r.overlap <> {Overlap.ALLOW} OR r.trigger <> {Trigger.SCHEDULE})
      AND (r.due, r.run_id) < (x.due, x.run_id)
    ORDER BY r.due DESC, r.run_id DESC LIMIT CASE x.overlap WHEN {Overlap.QUEUE_ALL} THEN 1 WHEN {Overlap.CANCEL_RUNNING} THEN NULL ELSE 100 END) n
  UNION ALL
  -- Fires that may run beside others, which `runs_line` has not: those that were let start, and those before it.
  SELECT n.run_id FROM own x CROSS JOIN LATERAL (
    SELECT run_id FROM tickwise.runs r
    WHERE x.line = 0 AND r.job_id = x.job_id AND r.overlap = {Overlap.ALLOW} AND r.trigger = {Trigger.SCHEDULE}
      AND (r.state > {RunState.QUEUED} OR (r.due, r.run_id) < (x.due, x.run_id))
    OFFSET 0) n
  UNION ALL
  -- Waiting runs that it replaces: a fire replaces fires; a run that a person asked for replaces any run.
  SELECT n.run_id FROM own x CROSS JOIN LATERAL (
    SELECT run_id, trigger FROM tickwise.runs r
    WHERE x.overlap = {Overlap.CANCEL_RUNNING} AND r.job_id = x.job_id AND (r.trigger = {Trigger.BACKFILL})::int = x.line AND r.blocked AND r.limit_key IS NULL
      AND (r.due, r.run_id) < (x.due, x.run_id)
    ORDER BY r.due DESC, r.run_id DESC LIMIT 100) n
  WHERE x.trigger <> {Trigger.SCHEDULE} OR n.trigger = {Trigger.SCHEDULE}
),
l AS MATERIALIZED (
  SELECT run_id, job_id, due, ready, lane, state, holder, token, overlap, trigger, attempt
  FROM tickwise.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM near)) ORDER BY run_id FOR UPDATE
),
x AS MATERIALIZED (
  SELECT l.run_id, l.job_id, l.due, l.overlap, l.trigger, (l.trigger = {Trigger.BACKFILL})::int AS line, b.started,
         (SELECT c.holder = l.holder AND c.token = l.token AND c.kind <> 'return' FROM tickwise.cancel_requests c
          WHERE c.run_id = l.run_id OFFSET 0) IS TRUE AS asked
  FROM l JOIN b ON b.run_id = l.run_id AND b.token = l.token
  WHERE l.holder = $1 AND l.state = {RunState.DISPATCHED} AND l.overlap > 0
),
-- Before each: the runs with the smaller (due, id), and those that were let start. `replaced`: in its favour; it `goes` at once if no
-- executor holds it.
e AS MATERIALIZED (
  SELECT e.*, replaced AND holder = 0 AS goes,
         (SELECT true FROM tickwise.attempts a WHERE a.run_id = e.run_id LIMIT 1) IS NOT NULL AS begun
  FROM (
    SELECT x.run_id AS mine, l.run_id, l.state, l.holder, l.token, x.overlap = {Overlap.CANCEL_RUNNING} AND (x.trigger <> {Trigger.SCHEDULE} OR l.trigger = {Trigger.SCHEDULE}) AS replaced
    FROM x JOIN l ON l.job_id = x.job_id AND (l.trigger = {Trigger.BACKFILL})::int = x.line AND l.run_id <> x.run_id
    WHERE (l.due, l.run_id) < (x.due, x.run_id) OR l.overlap < 0 OR l.overlap = {Overlap.ALLOW} AND l.state > {RunState.QUEUED}) e
),
-- Runs that wait before it and are not replaced by it: as many as make a difference, or can be reported.
w AS MATERIALIZED (
  SELECT x.run_id AS mine, w.run_id
  FROM x CROSS JOIN LATERAL (
    SELECT run_id, trigger FROM tickwise.runs r
    WHERE r.job_id = x.job_id AND (r.trigger = {Trigger.BACKFILL})::int = x.line AND r.blocked AND r.limit_key IS NULL
      AND (r.due, r.run_id) < (x.due, x.run_id)
    ORDER BY r.due DESC, r.run_id DESC LIMIT CASE x.overlap WHEN {Overlap.QUEUE_ALL} THEN 1 ELSE 100 END) w
  WHERE x.overlap <> {Overlap.CANCEL_RUNNING} OR x.trigger = {Trigger.SCHEDULE} AND w.trigger <> {Trigger.SCHEDULE}
),
v AS MATERIALIZED (
  SELECT run_id, asked, earlier,
         CASE WHEN earlier = 0 THEN 'start' WHEN NOT asked AND (overlap = {Overlap.SKIP} OR overlap = {Overlap.QUEUE_ONE} AND earlier > 1) THEN 'skip'
              ELSE 'wait' END AS verdict
  FROM (SELECT x.*, (SELECT count(*) FROM e WHERE e.mine = x.run_id AND NOT goes)
                    + (SELECT count(*) FROM w WHERE w.mine = x.run_id) AS earlier FROM x) x
),
started AS (
  UPDATE tickwise.runs r
  SET state = {RunState.RUNNING}, started = to_timestamp((SELECT b.started FROM b WHERE b.run_id = r.run_id)), overlap = -overlap, limit_key = NULL,
      slot = NULL, rate_key = NULL,
      on_unknown = (SELECT b.on_unknown FROM b WHERE b.run_id = r.run_id),
      watched = watched OR (SELECT true FROM tickwise.runs o WHERE o.job_id = r.job_id AND o.blocked AND o.limit_key IS NULL LIMIT 1) IS NOT NULL
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM v WHERE verdict = 'start'))
),
waiting AS (
  UPDATE tickwise.runs
  SET state = {RunState.QUEUED}, holder = 0, token = 0, claimed = '-infinity', attempt = attempt - 1, blocked = true, ready = 'infinity',
      limit_key = NULL, place = NULL
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM v WHERE verdict = 'wait'))
),
watched AS (
  UPDATE tickwise.runs SET watched = true
  WHERE NOT watched AND run_id = ANY(ARRAY(SELECT e.run_id FROM e JOIN v ON v.run_id = e.mine WHERE verdict = 'wait' AND NOT goes))
),
stopping AS MATERIALIZED (
  SELECT mine, run_id, token, holder FROM e WHERE replaced AND holder <> 0
),
asked AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', 'a later run of the job took its place' FROM stopping
  ON CONFLICT (run_id) DO UPDATE
  SET kind = 'cancel', reason = NULL, token = excluded.token, holder = excluded.holder, error = excluded.error,
      asked = excluded.asked, heard = NULL
  WHERE c.kind <> 'cancel' OR c.token <> excluded.token
),
d AS (
  DELETE FROM tickwise.runs
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM v WHERE verdict = 'skip' UNION ALL SELECT run_id FROM e WHERE goes))
  RETURNING due, nominal, queued, holder, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                                crashes, trigger, namespace, reason, error, definition, origin)
  SELECT d.due, d.nominal, d.queued, (SELECT at FROM clock), 0, 0, d.run_id, d.job_id, CASE WHEN ends.begun THEN {RunState.CANCELLED} ELSE {RunState.SKIPPED} END,
         d.state, d.attempt - CASE d.holder WHEN 0 THEN 0 ELSE 1 END, d.failures, d.crashes, d.trigger, d.namespace,
         CASE WHEN ends.begun THEN 'cancelled' ELSE 'overlap' END, ends.error, d.definition, d.origin
  FROM d JOIN (
    SELECT run_id, false AS begun,
           CASE WHEN earlier = 1 THEN 'an earlier run' WHEN earlier < 100 THEN earlier || ' earlier runs' ELSE '100 earlier runs or more' END
             || ' of the job had not ended' AS error
    FROM v WHERE verdict = 'skip'
    UNION ALL SELECT run_id, begun, 'a later run of the job took its place' FROM e WHERE goes) ends USING (run_id)
)
SELECT run_id, verdict, asked, (SELECT array_agg(run_id) FROM stopping s WHERE s.mine = v.run_id), NULL::float8, NULL::int FROM v
UNION ALL
SELECT run_id, 'passed', NULL, NULL, date_part('epoch', ready), lane FROM l
WHERE holder = 0 AND ready <= (SELECT at FROM clock) AND run_id NOT IN (SELECT run_id FROM e WHERE goes)
