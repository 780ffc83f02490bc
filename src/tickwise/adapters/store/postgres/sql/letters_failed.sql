-- Which of these runs are on record as FAILED, their jobs, and whether their outcome is unknown. $1 namespace, $2 runs.
SELECT h.run_id, h.job_id, h.reason IS NOT DISTINCT FROM 'unknown_outcome' AS held
FROM tickwise.history h WHERE h.run_id = ANY($2::uuid[]) AND h.namespace = $1 AND h.state = 6
