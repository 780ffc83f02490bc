-- What comes next of a job was changed by a person, and nothing else of it. $1 job.
UPDATE tickwise.jobs SET version = version + 1, updated = tickwise.now() WHERE job_id = $1
