-- name: claim
-- Take ready runs for an active executor, ahead of time, by the database's clock. Lanes come by priority, then by namespace, beginning
-- after the one that the last claim of that priority began with, and then by their longest-waiting run (a fair claim: by that alone);
-- each is read from its own mark, in order of readiness. Queues on hold are left out, and namespaces that the executor does not take; and
-- runs of stopped jobs, whose jobs are looked up only in namespaces with a stop of jobs or labels.
-- $1 executor, $2 limit, $3 queues, $4 labels, $5 seconds ahead, $6 fair, $7 floor of all lanes, $8 lanes with marks of
-- their own, $9 those marks, $10 priorities, $11 the namespace that the last claim of each began with,
-- $12 namespaces with a quota of runs at once: their runs are guarded, since the quota is kept at a start that is recorded first.
-- $13 namespaces whose tasks must be in a sandbox or a container, $14 in a container: lanes below that are passed over.
-- No join here can be turned round by statistics: rows are addressed by LATERAL and by ctid.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
me AS MATERIALIZED (
  SELECT true AS alive, namespaces FROM tickwise.executors
  WHERE executor = $1 AND gone IS NULL AND lease > (SELECT at FROM clock) FOR SHARE
),
stops AS MATERIALIZED (SELECT array_agg(namespace) AS namespaces FROM tickwise.stops_of_jobs),
heads AS MATERIALIZED (
  SELECT l.lane, h.ready
  FROM tickwise.lanes l CROSS JOIN LATERAL (
    SELECT ready FROM tickwise.runs
    WHERE lane = l.lane AND holder = 0 AND ready <= (SELECT at FROM clock) + $5::float8 * interval '1 second'
      AND ready >= coalesce(to_timestamp(($9::float8[])[array_position($8::int[], l.lane)]), to_timestamp($7::float8))
    ORDER BY ready LIMIT 1) h
  WHERE l.queue = ANY($3::text[]) AND l.requires <@ $4::text[] AND (SELECT alive FROM me)
    AND (l.namespace, l.queue) NOT IN (SELECT namespace, queue FROM tickwise.queues_held)
    AND ((SELECT namespaces FROM me) IS NULL OR l.namespace = ANY((SELECT namespaces FROM me)::text[]))
    AND NOT (l.namespace = ANY($13::text[]) AND l.requires && ARRAY['task:python', 'task:shell'] AND NOT l.requires && ARRAY['isolation:sandbox', 'isolation:container'])
    AND NOT (l.namespace = ANY($14::text[]) AND l.requires && ARRAY['task:python', 'task:shell'] AND NOT 'isolation:container' = ANY(l.requires))
  ORDER BY CASE WHEN NOT $6::boolean THEN -l.priority END,
           CASE WHEN NOT $6 THEN (l.namespace COLLATE "C" <= ($11::text[])[array_position($10::smallint[], l.priority)]) IS TRUE END,
           CASE WHEN NOT $6 THEN l.namespace COLLATE "C" END, h.ready
),
picked AS MATERIALIZED (
  SELECT ARRAY(
    SELECT r.ctid FROM heads CROSS JOIN LATERAL (
      SELECT ctid FROM tickwise.runs
      WHERE lane = heads.lane AND holder = 0 AND ready >= heads.ready
        AND ready <= (SELECT at FROM clock) + $5::float8 * interval '1 second'
        AND CASE WHEN namespace = ANY((SELECT namespaces FROM stops)::text[]) THEN NOT tickwise.is_stopped(job_id) ELSE true END
      ORDER BY ready LIMIT $2 FOR UPDATE SKIP LOCKED) r
    LIMIT $2) AS places
),
-- Read from the rows as they are locked, so that a claim which nobody watches hands over what it updates and keeps nothing.
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.DISPATCHED} AS state, namespace, least(attempt + 1, 32767)::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM tickwise.runs
        WHERE CASE WHEN (SELECT places <> '{}' FROM picked) THEN (SELECT tickwise.feed_watched()) END
          AND ctid = ANY((SELECT places FROM picked)::tid[]) AND holder = 0
        GROUP BY namespace, runs.attempt) g
)
-- The attempt number stays at its maximum: a run that was released so often must not block all others.
UPDATE tickwise.runs
SET holder = $1, token = (SELECT nextval('tickwise.fence')), attempt = attempt + CASE WHEN attempt < 32767 THEN 1 ELSE 0 END, state = {RunState.DISPATCHED},
    claimed = (SELECT at FROM clock), guarded = guarded OR namespace = ANY($12::text[])
WHERE (SELECT count(*) FROM noted) >= 0 AND ctid = ANY((SELECT places FROM picked)::tid[]) AND holder = 0
RETURNING run_id, token, job_id, namespace, attempt, failures, crashes, guarded OR overlap > 0, date_part('epoch', due),
          date_part('epoch', coalesce(nominal, due)), date_part('epoch', ready), trigger,
          -- A missing copy means a large definition. A missing job, which cannot be, is handed over all the same, so that its run ends on
          -- record.
          coalesce(spec, (SELECT j.definition FROM tickwise.jobs j WHERE j.job_id = runs.job_id), ''),
          (SELECT date_part('epoch', at) FROM clock), lane
