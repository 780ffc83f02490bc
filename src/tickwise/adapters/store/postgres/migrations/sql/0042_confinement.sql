-- What an executor counts: resources by name, and its memory in bytes under memory_bytes; how much there is, and how much its runs hold as of
-- its last heartbeat. Three arrays of one length. Empty of programs of the release before, which count nothing.
ALTER TABLE tickwise.executors
  ADD COLUMN capacity_names text[] NOT NULL DEFAULT '{}',
  ADD COLUMN capacity_wholes bigint[] NOT NULL DEFAULT '{}',
  ADD COLUMN capacity_takens bigint[] NOT NULL DEFAULT '{}';

-- The least isolation that a namespace demands of its tasks stands with its quotas (min_isolation). Claims pass over lanes below it.

-- All that an executor is to know of it.
CREATE VIEW tickwise.sandboxed_namespaces AS
SELECT name AS namespace FROM tickwise.namespaces WHERE quotas IS NOT NULL AND quotas::json ->> 'min_isolation' = 'sandbox';

-- The rights of an executor's own role are those of 0038, and the view.
CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.stops_of_lanes, tickwise.stops_of_jobs, tickwise.results_applied, '
                 'tickwise.environments_wanted, tickwise.sandboxed_namespaces TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (failed_at, reason, detail, executor) ON tickwise.environments TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (told) ON tickwise.holds, tickwise.stops TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tickwise.runs, tickwise.attempts, tickwise.executors, '
                 'tickwise.cancel_requests, tickwise.limits, tickwise.rates, tickwise.follows, tickwise.board TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT ON tickwise.history, tickwise.tallies_new, tickwise.incidents TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (differed) ON tickwise.epochs TO %I', grantee);
  -- Any process may tidy what processes tell each other, and the pace of requests that have ended.
  EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tickwise.paces TO %I', grantee);
  EXECUTE format('GRANT USAGE ON SEQUENCE tickwise.fence, tickwise.places TO %I', grantee);
END $$;

DO $$
DECLARE
  grantee name;
BEGIN
  FOR grantee IN
    SELECT DISTINCT r.rolname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = 'tickwise.lanes_held'::regclass AND a.privilege_type = 'SELECT' AND r.oid <> c.relowner
  LOOP
    EXECUTE format('GRANT SELECT ON tickwise.sandboxed_namespaces TO %I', grantee);
  END LOOP;
END $$;

-- More of what an attempt used: bytes that its processes read from disks and wrote to them, bytes between it and the network, and the most
-- that it kept in its work folder. NULL where it was not measured: of all attempts before this, of those of programs of the release before,
-- and of functions.
SELECT tickwise.lock_briefly(ARRAY['history', 'attempts']);

ALTER TABLE tickwise.history
  ADD COLUMN read_bytes    bigint,
  ADD COLUMN written_bytes bigint,
  ADD COLUMN network_bytes bigint,
  ADD COLUMN work_bytes    bigint;
ALTER TABLE tickwise.attempts
  ADD COLUMN read_bytes    bigint,
  ADD COLUMN written_bytes bigint,
  ADD COLUMN network_bytes bigint,
  ADD COLUMN work_bytes    bigint;
