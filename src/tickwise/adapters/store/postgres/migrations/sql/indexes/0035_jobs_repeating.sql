-- Jobs that recur or run on demand, in the order of lists. One-time jobs, which come by the thousand a second, pay nothing for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_repeating ON tickwise.jobs_lasting (job_id)
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE';
