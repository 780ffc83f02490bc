-- The lanes of namespaces that have more than $2, and if there are more than $1 in all, every lane.
SELECT coalesce(array_agg(lane), '{}') FROM (
  SELECT lane, count(*) OVER () AS of_all, count(*) OVER (PARTITION BY namespace) AS of_namespace FROM tickwise.lanes) l
WHERE of_all > $1 OR of_namespace > $2
