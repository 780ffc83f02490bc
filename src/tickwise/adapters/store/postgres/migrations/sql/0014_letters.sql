-- Dead letters stay when their job is gone, with the namespace that it went to. The view is that of 0009 but for the outer join.
CREATE OR REPLACE VIEW tickwise.letters_shown AS
SELECT r.*, coalesce(j.name, '(moved)') AS job_name, coalesce(j.task_kind, '') AS task_kind, l.status AS settled_as,
       date_part('epoch', l.settled) AS settled_at, l.settled_by, l.note, l.redriven_as, l.ruling
FROM tickwise.runs_shown r
-- Looked up for each: a search begins with what failed, and reads it in order.
LEFT JOIN LATERAL (
  SELECT CASE WHEN j.namespace = r.namespace THEN name END AS name, CASE WHEN j.namespace = r.namespace THEN task_kind END AS task_kind
  FROM tickwise.jobs j WHERE j.job_id = r.job_id OFFSET 0) j ON true
LEFT JOIN LATERAL (SELECT * FROM tickwise.letters l WHERE l.run_id = r.run_id OFFSET 0) l ON true
WHERE r.state = 6;
