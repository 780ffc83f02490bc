-- Environments that jobs declare, for executors that build them before a run is due: one row for each declaration, queue and labels.
-- Nothing refers to it, and a lost row costs a build at the first run.

CREATE TABLE tickwise.environments (
  declared_at timestamptz NOT NULL,
  failed_at   timestamptz,
  job_id      uuid,                        -- the job that declared it last; NULL: a stored task
  namespace   text NOT NULL,
  digest      text NOT NULL,               -- of the declaration
  queue       text NOT NULL,
  requires    text[] NOT NULL,             -- labels of people, sorted
  declaration text NOT NULL,               -- JSON: requirements, lock, Python, newest upload
  reason      text,                        -- of the last failed build,
  detail      text,                        -- with the words of the tool that builds,
  executor    text,                        -- and where it was tried
  PRIMARY KEY (namespace, digest, queue, requires)
);
CREATE INDEX environments_of_queue ON tickwise.environments (queue, declared_at);
CREATE INDEX environments_of_namespace ON tickwise.environments (namespace, declared_at);

-- For executors, which read no timers themselves.
CREATE VIEW tickwise.environments_wanted AS
SELECT e.declared_at, e.failed_at, e.namespace, e.digest, e.queue, e.requires, e.declaration, t.due
FROM tickwise.environments e LEFT JOIN tickwise.timers t ON t.job_id = e.job_id;

CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.stops_of_lanes, tickwise.stops_of_jobs, tickwise.results_applied, '
                 'tickwise.environments_wanted TO %I', grantee);
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
    EXECUTE format('GRANT SELECT ON tickwise.environments_wanted TO %I', grantee);
    EXECUTE format('GRANT SELECT, UPDATE (failed_at, reason, detail, executor) ON tickwise.environments TO %I', grantee);
  END LOOP;
END $$;
