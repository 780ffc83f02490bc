-- The ids of pages: a job that fires all the time, one that seldom does, one with labels, and of each end a run of the last days.
SELECT bench.id(bench.job_made(o.at, 11, n.jobs), 11) AS busy_job, bench.id(bench.job_made(o.at, n.jobs - 3, n.jobs), n.jobs - 3) AS seldom_job,
       (SELECT run_id FROM tickwise.history WHERE state = 6 ORDER BY run_id DESC LIMIT 1) AS failed_run,
       (SELECT run_id FROM tickwise.history WHERE state = 5 AND run_id < bench.id(o.at - interval '3 days', 0) ORDER BY run_id DESC LIMIT 1) AS old_run,
       (SELECT job_id FROM tickwise.jobs WHERE job_id < bench.id(o.at - interval '100 days', 0) ORDER BY job_id DESC LIMIT 1) AS old_job
FROM bench.origin o CROSS JOIN (SELECT count(*) AS jobs FROM tickwise.jobs_lasting) n
