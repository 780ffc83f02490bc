-- The newest jobs of the default namespace, as `jobs_list` has them: most of all jobs are. $1 that namespace, $2 places below it, $3 limit.
-- Planned once.
SELECT j.*, l.queue, l.priority, l.requires, c.listed
FROM (
  SELECT job_id, listed FROM (
    (SELECT job_id, job_id AS listed FROM tickwise.jobs j
     WHERE j.namespace = $1 AND j.job_id < $2
       AND (j.digest IS NULL OR NOT EXISTS (SELECT FROM tickwise.jobs_placed p WHERE p.job_id = j.job_id OFFSET 0))
     ORDER BY job_id DESC)
    UNION ALL
    (SELECT p.job_id, p.listed FROM tickwise.jobs_placed p
     WHERE p.namespace = $1 AND p.listed < $2
     ORDER BY p.listed DESC)) s
  ORDER BY listed DESC LIMIT $3) c
CROSS JOIN LATERAL (SELECT * FROM tickwise.jobs_shown j WHERE j.job_id = c.job_id OFFSET 0) j
JOIN tickwise.lanes l USING (lane)
ORDER BY c.listed DESC
