-- Keys that sign the identity tokens of runs. The private half is sealed with the installation's key, which the database never sees.

CREATE TABLE tickwise.identity_keys (
  created_at timestamptz NOT NULL,
  signs_at   timestamptz NOT NULL,         -- published since it was made, it signs from then on until the next one does
  key_id     text PRIMARY KEY,             -- JWK thumbprint of the public half
  algorithm  text NOT NULL,                -- RS256, EdDSA
  public     bytea NOT NULL,               -- DER, SubjectPublicKeyInfo
  sealed     bytea NOT NULL
);

-- The rights of an executor's own role are those of 0043, and to read the keys: it adds none.
CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.stops_of_lanes, tickwise.stops_of_jobs, tickwise.results_applied, '
                 'tickwise.environments_wanted, tickwise.sandboxed_namespaces, tickwise.secrets_sealed, '
                 'tickwise.identity_keys TO %I', grantee);
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
    EXECUTE format('GRANT SELECT ON tickwise.identity_keys TO %I', grantee);
  END LOOP;
END $$;
