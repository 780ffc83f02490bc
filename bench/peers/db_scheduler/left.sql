-- Jobs that are not done: a done one is deleted.
SELECT count(*) FROM scheduled_tasks
