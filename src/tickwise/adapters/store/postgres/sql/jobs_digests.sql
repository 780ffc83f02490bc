-- Whose these ids are, and of which body they were made. $1 ids.
SELECT job_id, namespace, digest FROM tickwise.jobs WHERE job_id = ANY($1::uuid[])
