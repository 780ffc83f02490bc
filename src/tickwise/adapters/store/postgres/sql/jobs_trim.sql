-- name: jobs_trim
-- One-time jobs outside the partitions that are dropped, made before $1, with nothing to come and nothing on record any more. $2 are looked
-- at, those after the id $3: a job that stays is looked at each time, and a long statement would keep dead rows of all tables. Returns the
-- last that was looked at; NULL: there are no more. Most ids begin with the time of the creation, so jobs with ids between $1 and now are not
-- read: ten million that lie ahead cost nothing. A client may choose an id of the future, and those are read. One that says a time before now
-- is read once $1 has come to it.
WITH old AS MATERIALIZED (
  SELECT job_id, lasting FROM (
    (SELECT job_id, lasting FROM tickwise.jobs_lasting
     WHERE NOT recurring AND job_id > $3::uuid AND job_id < tickwise.first_id(to_timestamp($1::float8)) ORDER BY job_id LIMIT $2)
    UNION ALL
    (SELECT job_id, lasting FROM tickwise.jobs_rest
     WHERE job_id > $3 AND job_id < tickwise.first_id(to_timestamp($1)) ORDER BY job_id LIMIT $2)
    UNION ALL
    (SELECT job_id, lasting FROM tickwise.jobs_lasting
     WHERE NOT recurring AND job_id > $3 AND job_id >= tickwise.first_id(tickwise.now() + interval '1 minute') ORDER BY job_id LIMIT $2)
    UNION ALL
    (SELECT job_id, lasting FROM tickwise.jobs_rest
     WHERE job_id > $3 AND job_id >= tickwise.first_id(tickwise.now() + interval '1 minute') ORDER BY job_id LIMIT $2)) o
  ORDER BY job_id LIMIT $2
),
over AS MATERIALIZED (
  SELECT j.job_id, j.lasting FROM old CROSS JOIN LATERAL (
    SELECT job_id, lasting FROM tickwise.jobs j
    WHERE job_id = old.job_id AND lasting = old.lasting
      AND tableoid IN ('tickwise.jobs_lasting'::regclass, 'tickwise.jobs_rest'::regclass)
      AND NOT recurring AND created < to_timestamp($1::float8)
      -- The timers of jobs that arrive from another database wait elsewhere.
      AND NOT EXISTS (SELECT FROM tickwise.shard_arrivals a WHERE a.namespace = j.namespace AND a.state <> 'arrived')
      AND NOT EXISTS (SELECT FROM tickwise.timers t WHERE t.job_id = j.job_id)
      AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id)
      AND NOT EXISTS (SELECT FROM tickwise.history h WHERE h.job_id = j.job_id)
    FOR UPDATE SKIP LOCKED
  ) j
),
gone AS (
  DELETE FROM tickwise.jobs j USING over
  WHERE j.job_id = over.job_id AND j.lasting = over.lasting
    AND NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.job_id = j.job_id)
  RETURNING j.job_id
),
placed AS (
  DELETE FROM tickwise.jobs_placed p USING gone WHERE p.job_id = gone.job_id
)
SELECT CASE WHEN count(*) = $2 THEN (SELECT job_id FROM old ORDER BY job_id DESC LIMIT 1) END FROM old
