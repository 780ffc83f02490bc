-- name: claim_named
-- Take those of the named runs that `claim` could take, in the order in which they are named. $1 executor, $2 limit, $3 queues,
-- $4 labels, $5 seconds ahead, $6 run ids, $7 namespaces with a quota of runs at once, $8 namespaces whose tasks must be
-- in a sandbox or a container, $9 in a container (as `claim`).
-- Each is looked up by its id, and no index serves the other conditions (IS TRUE), so statistics cannot lead to one. Else as `claim`.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
me AS MATERIALIZED (
  SELECT true AS alive, namespaces FROM tickwise.executors WHERE executor = $1 AND gone IS NULL AND lease > (SELECT at FROM clock) FOR SHARE
),
served AS MATERIALIZED (
  SELECT l.lane FROM tickwise.lanes l
  WHERE l.queue = ANY($3::text[]) AND l.requires <@ $4::text[] AND (SELECT alive FROM me)
    AND (l.namespace, l.queue) NOT IN (SELECT namespace, queue FROM tickwise.queues_held)
    AND ((SELECT namespaces FROM me) IS NULL OR l.namespace = ANY((SELECT namespaces FROM me)::text[]))
    AND NOT (l.namespace = ANY($8::text[]) AND l.requires && ARRAY['task:python', 'task:shell'] AND NOT l.requires && ARRAY['isolation:sandbox', 'isolation:container'])
    AND NOT (l.namespace = ANY($9::text[]) AND l.requires && ARRAY['task:python', 'task:shell'] AND NOT 'isolation:container' = ANY(l.requires))
),
picked AS MATERIALIZED (
  SELECT ARRAY(
    SELECT r.ctid FROM unnest($6::uuid[]) n(run_id) CROSS JOIN LATERAL (
      SELECT ctid FROM tickwise.runs
      WHERE run_id = n.run_id AND (holder = 0) IS TRUE AND (lane IN (SELECT lane FROM served)) IS TRUE
        AND (ready <= (SELECT at FROM clock) + $5::float8 * interval '1 second') IS TRUE
        AND CASE WHEN namespace = ANY((SELECT array_agg(namespace) FROM tickwise.stops_of_jobs)::text[]) THEN NOT tickwise.is_stopped(job_id) ELSE true END
      FOR UPDATE SKIP LOCKED) r
    LIMIT $2) AS places
),
noted AS MATERIALIZED (
  SELECT tickwise.feed_note(state, namespace, attempt, runs, jobs)
  FROM (SELECT {RunState.DISPATCHED} AS state, namespace, least(attempt + 1, 32767)::smallint AS attempt, array_agg(run_id) AS runs, array_agg(job_id) AS jobs
        FROM tickwise.runs
        WHERE CASE WHEN (SELECT places <> '{}' FROM picked) THEN (SELECT tickwise.feed_watched()) END
          AND ctid = ANY((SELECT places FROM picked)::tid[]) AND holder = 0
        GROUP BY namespace, runs.attempt) g
)
UPDATE tickwise.runs
SET holder = $1, token = (SELECT nextval('tickwise.fence')), attempt = attempt + CASE WHEN attempt < 32767 THEN 1 ELSE 0 END, state = {RunState.DISPATCHED},
    claimed = (SELECT at FROM clock), guarded = guarded OR namespace = ANY($7::text[])
WHERE (SELECT count(*) FROM noted) >= 0 AND ctid = ANY((SELECT places FROM picked)::tid[]) AND holder = 0
RETURNING run_id, token, job_id, namespace, attempt, failures, crashes, guarded OR overlap > 0, date_part('epoch', due),
          date_part('epoch', coalesce(nominal, due)), date_part('epoch', ready), trigger,
          -- A missing copy means a large definition. A missing job, which cannot be, is handed over all the same, so that its run ends on
          -- record.
          coalesce(spec, (SELECT j.definition FROM tickwise.jobs j WHERE j.job_id = runs.job_id), ''),
          (SELECT date_part('epoch', at) FROM clock), lane
