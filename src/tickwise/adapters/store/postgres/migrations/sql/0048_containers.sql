-- The least isolation that a namespace demands may be a container. A program of the release before takes such a demand for one of a sandbox.
CREATE OR REPLACE VIEW tickwise.sandboxed_namespaces AS
SELECT name AS namespace, quotas::json ->> 'min_isolation' AS least
FROM tickwise.namespaces WHERE quotas IS NOT NULL AND quotas::json ->> 'min_isolation' IN ('sandbox', 'container');
