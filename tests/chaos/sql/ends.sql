-- How often what came of runs.
SELECT (ARRAY['QUEUED', 'DISPATCHED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED', 'SKIPPED'])[state] AS state,
       coalesce(reason, '') AS reason, count(*) AS runs
FROM tickwise.history GROUP BY 1, 2;
