-- The rules are others now, and what one of them holds back in this namespace is decided anew. $1 namespace.
WITH v AS (UPDATE tickwise.rules_version SET version = version + 1)
UPDATE tickwise.timers SET due = (SELECT tickwise.now())
WHERE hold IN ('calendar', 'maintenance') AND due > (SELECT tickwise.now())
  AND job_id IN (
    SELECT t.job_id FROM tickwise.timers t JOIN tickwise.jobs j ON j.job_id = t.job_id
    WHERE t.hold IN ('calendar', 'maintenance') AND j.namespace = $1)
