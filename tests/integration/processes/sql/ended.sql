-- Every run that ended.
SELECT h.run_id, h.job_id, h.token, h.attempt, h.crashes, h.executor, h.reason,
       (ARRAY['QUEUED', 'DISPATCHED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED', 'SKIPPED'])[h.state] AS state,
       date_part('epoch', h.due) AS due, date_part('epoch', h.started) AS started, date_part('epoch', h.ended) AS ended
FROM tickwise.history h;
