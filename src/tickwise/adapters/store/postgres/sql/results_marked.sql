-- Up to which number an executor's results are applied. $1 executor.
SELECT coalesce((SELECT number FROM tickwise.results_applied WHERE executor = $1), 0)
