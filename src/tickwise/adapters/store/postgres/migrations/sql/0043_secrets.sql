-- Secrets of our own store. The values are sealed before they come here; the key is not in the database.
CREATE TABLE tickwise.secrets (
  created_at   timestamptz NOT NULL,
  changed_at   timestamptz NOT NULL,
  version      int NOT NULL,
  namespace    text COLLATE "C" NOT NULL,
  name         text COLLATE "C" NOT NULL,
  created_by   text NOT NULL,
  changed_by   text NOT NULL,
  key_id       bytea NOT NULL,           -- the key of the installation that wraps the data key
  sealed_key   bytea NOT NULL,
  sealed_value bytea NOT NULL,
  PRIMARY KEY (namespace, name)
);
-- Sealed bytes do not compress; a rotation leaves those that are stored apart where they are.
ALTER TABLE tickwise.secrets ALTER COLUMN sealed_value SET STORAGE EXTERNAL, ALTER COLUMN sealed_key SET STORAGE EXTERNAL;
CREATE INDEX secrets_key ON tickwise.secrets (key_id, namespace, name);

-- Who set which version, and when; the values of earlier versions are gone.
CREATE TABLE tickwise.secret_versions (
  set_at    timestamptz NOT NULL,
  version   int NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  name      text COLLATE "C" NOT NULL,
  set_by    text NOT NULL,
  PRIMARY KEY (namespace, name, version),
  FOREIGN KEY (namespace, name) REFERENCES tickwise.secrets ON DELETE CASCADE
);

-- All that an executor is to know of them.
CREATE VIEW tickwise.secrets_sealed AS
SELECT namespace, name, version, sealed_key, sealed_value FROM tickwise.secrets;

-- The rights of an executor's own role are those of 0042, and the view.
CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.stops_of_lanes, tickwise.stops_of_jobs, tickwise.results_applied, '
                 'tickwise.environments_wanted, tickwise.sandboxed_namespaces, tickwise.secrets_sealed TO %I', grantee);
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
    EXECUTE format('GRANT SELECT ON tickwise.secrets_sealed TO %I', grantee);
  END LOOP;
END $$;
