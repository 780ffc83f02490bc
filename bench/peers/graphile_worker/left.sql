-- Jobs that are not done: a done one is deleted.
SELECT count(*) FROM graphile_worker._private_jobs
