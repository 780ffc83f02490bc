-- No fire of this job is under way until this transaction ends. $1 job. Written and not only locked, so that a statement which
-- began before this transaction ended, and so still sees the old job, finds its timer changed and leaves it for the next round.
UPDATE tickwise.timers SET due = due WHERE job_id = $1
