-- What is on record of each job's occurrences.
SELECT job_id, state, date_part('epoch', coalesce(nominal, due)) AS nominal, coalesce(occurrences, 1) AS occurrences,
       date_part('epoch', queued) AS queued
FROM tickwise.history;
