-- Every attempt of a run: those that did not end it, and the one that did or that is under way. $1 run.
SELECT attempt, token, executor, state, date_part('epoch', claimed) AS dispatched_at, date_part('epoch', started) AS started_at,
       date_part('epoch', ended) AS ended_at, reason, error
FROM tickwise.attempts WHERE run_id = $1
UNION ALL
SELECT attempt, token, executor, state, dispatched_at, started_at, ended_at, reason, error
FROM tickwise.runs_shown WHERE run_id = $1 AND executor IS NOT NULL
ORDER BY token
