-- What a question costs that reads all: the runs of each job, the jobs with the most runs first.
SELECT job_id, count(*) AS runs, count(*) FILTER (WHERE state = 6) AS failed, avg(extract(epoch FROM ended - started)) AS seconds
FROM tickwise.history GROUP BY job_id ORDER BY runs DESC LIMIT 20
