-- The secrets of our own store that the task of a job names, so that "which jobs use it?" is a look at an index. The definition stays opaque
-- to the store: the names come with it. Jobs that name none, which are most, pay nothing. Of one-time jobs that pass it stays empty.
SELECT tickwise.lock_briefly(ARRAY['jobs', 'jobs_lasting', 'jobs_passing', 'jobs_rest']);
ALTER TABLE tickwise.jobs ADD COLUMN secrets text[];  -- NULL: none

-- Of jobs that stay and were stored before: any text of the form of a reference counts, also one that stands where it has no effect. Their
-- next edit tells exactly.
UPDATE tickwise.jobs_lasting j SET secrets = named.names
FROM (
  SELECT o.job_id, (
    SELECT array_agg(DISTINCT n.name COLLATE "C") FROM (
      SELECT m[1] AS name FROM regexp_matches(o.definition, '"secret(?:-file)?:([A-Za-z0-9][A-Za-z0-9._-]{0,127})"', 'g') m
      UNION ALL
      SELECT m[1] FROM regexp_matches(o.definition, '\{\{[ \t]*secret\.([A-Za-z0-9][A-Za-z0-9._-]{0,127})[ \t]*\}\}', 'g') m
      UNION ALL
      SELECT m[1] FROM regexp_matches(o.definition, '\{\{[ \t]*secret\.\\"([A-Za-z0-9][A-Za-z0-9._-]{0,127})\\"[ \t]*\}\}', 'g') m
    ) n
  ) AS names
  FROM tickwise.jobs_lasting o WHERE o.definition LIKE '%secret%'
) named
WHERE j.job_id = named.job_id AND named.names IS NOT NULL;
