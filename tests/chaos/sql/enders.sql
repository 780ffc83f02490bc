-- Which executors have ended runs, and how many each.
SELECT executor, count(*) FROM tickwise.history WHERE executor <> 0 GROUP BY executor;
