-- How these jobs stand (a pause that is over by itself is none), and nobody pauses or cancels them until this transaction ends.
-- $1 namespace, $2 jobs. Always in one order.
SELECT job_id, CASE WHEN standing = 1 AND pause_until <= tickwise.now() THEN 0 ELSE standing END AS standing
FROM tickwise.jobs WHERE job_id = ANY($2::uuid[]) AND namespace = $1 ORDER BY job_id FOR SHARE
