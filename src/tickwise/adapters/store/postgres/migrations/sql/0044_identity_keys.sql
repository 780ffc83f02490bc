-- Keys that sign the identity tokens of runs. The private half is sealed with the installation's key, which the database never sees.

CREATE TABLE tickwise.identity_keys (
  created_at timestamptz NOT NULL,
  signs_at   timestamptz NOT NULL,         -- published since it was made, it signs from then on until the next one does
  key_id     text PRIMARY KEY,             -- JWK thumbprint of the public half
  algorithm  text NOT NULL,                -- RS256, EdDSA
  public     bytea NOT NULL,               -- DER, SubjectPublicKeyInfo
  sealed     bytea NOT NULL
);

-- An executor's own role reads the keys and adds none. The rights of roles that are there: those that read lanes_held.
ALTER FUNCTION tickwise.grant_executor(name) RENAME TO grant_executor_0043;
CREATE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tickwise.grant_executor_0043(grantee);
  EXECUTE format('GRANT SELECT ON tickwise.identity_keys TO %I', grantee);
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
