-- Whether a job recurs, and whether it may lie among those that go by dropping a partition. $1 job, $2 recurs, $3 it lasts.
UPDATE tickwise.jobs SET recurring = $2, lasting = lasting OR $3::boolean
WHERE job_id = $1 AND (recurring <> $2 OR NOT lasting AND $3)
