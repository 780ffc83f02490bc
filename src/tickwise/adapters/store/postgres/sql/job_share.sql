-- Whether a job stands, and nobody cancels it until this transaction ends. $1 namespace, $2 job.
SELECT standing FROM tickwise.jobs WHERE job_id = $2 AND namespace = $1 FOR SHARE
