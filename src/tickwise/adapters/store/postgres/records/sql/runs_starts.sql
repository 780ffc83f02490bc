-- name: runs_starts
-- The runs of jobs that were due in windows before now, counted by whether they began in time; for each job and window. $1 jobs, $2 the seconds
-- in which their runs should begin, $3 windows in seconds, the longest first, $4 the most ended runs of one job that are read, $5 an id
-- below those of the longest window, $6 the reasons of skips that are late starts. Planned for each call's own values.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
asked AS (SELECT q.job_id, q.within * interval '1 second' AS within FROM unnest($1::uuid[], $2::float8[]) q(job_id, within)),
ended AS MATERIALIZED (
  SELECT a.job_id, h.due, h.place,
         CASE WHEN h.state = {RunState.SKIPPED} THEN CASE WHEN h.reason = ANY($6::text[]) THEN true END
              ELSE CASE WHEN h.attempt > 1
                     THEN least(h.started, (SELECT min(t.started) FROM tickwise.attempts t WHERE t.run_id = h.run_id)) ELSE h.started END
                   > h.due + a.within END AS late
  FROM asked a CROSS JOIN LATERAL (
    SELECT run_id, due, started, state, reason, attempt, row_number() OVER (ORDER BY run_id DESC) AS place FROM tickwise.history
    WHERE job_id = a.job_id AND run_id > $5 ORDER BY run_id DESC LIMIT $4 + 1) h
),
-- One that goes on, or waits beyond its time and has never begun.
active AS (
  SELECT a.job_id, r.due, CASE WHEN r.attempt > 1 OR r.failures > 0 OR r.crashes > 0 THEN NULL
                               WHEN r.state = {RunState.RUNNING} THEN r.started > r.due + a.within
                               WHEN (SELECT at FROM clock) > r.due + a.within THEN true END AS late
  FROM asked a JOIN tickwise.runs r ON r.job_id = a.job_id
),
counted AS (
  SELECT job_id, due, late FROM ended WHERE late IS NOT NULL AND place <= $4
  UNION ALL
  SELECT job_id, due, late FROM active WHERE late IS NOT NULL
)
SELECT a.job_id, w.seconds, count(*) FILTER (WHERE NOT c.late) AS good, count(*) FILTER (WHERE c.late) AS late,
       (SELECT date_part('epoch', min(e.due)) FROM ended e WHERE e.job_id = a.job_id AND e.place <= $4
          AND EXISTS (SELECT FROM ended x WHERE x.job_id = a.job_id AND x.place > $4)) AS since
FROM asked a CROSS JOIN unnest($3::float8[]) w(seconds)
LEFT JOIN counted c ON c.job_id = a.job_id AND c.due <= (SELECT at FROM clock)
  AND c.due > (SELECT at FROM clock) - w.seconds * interval '1 second'
GROUP BY a.job_id, w.seconds
