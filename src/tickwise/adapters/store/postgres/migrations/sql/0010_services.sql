-- The rights of the roles that serve: API, scheduler and recorder with a role that does not own the schema. It may do all that they do, and
-- of the audit log it may write entries and seals, and neither change nor remove them.

-- Making and giving up partitions needs the owner's rights. These pass on what has the name of a partition, and nothing else.
CREATE FUNCTION tickwise.service_partition_make(parent text, name text, low uuid, high uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT (parent = 'history' AND name ~ '^history_\d{8}$' OR parent = 'jobs_passing' AND name ~ '^jobs_\d{8}$') THEN
    RAISE '% is no partition of %', name, parent USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN tickwise.partition_make(parent, name, low, high);
END
$$;
CREATE FUNCTION tickwise.service_history_retire(name text, low uuid, high uuid, since timestamptz, failed_since timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF name !~ '^history_\d{8}(_kept)?$' THEN
    RAISE '% is no partition of history', name USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN tickwise.history_retire(name, low, high, since, failed_since);
END
$$;
CREATE FUNCTION tickwise.service_jobs_retire(name text, low uuid, high uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF name !~ '^jobs_\d{8}$' THEN
    RAISE '% is no partition of jobs', name USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN tickwise.jobs_retire(name, low, high);
END
$$;
REVOKE ALL ON FUNCTION tickwise.service_partition_make(text, text, uuid, uuid),
  tickwise.service_history_retire(text, uuid, uuid, timestamptz, timestamptz), tickwise.service_jobs_retire(text, uuid, uuid) FROM PUBLIC;

-- Called again after each upgrade, because a later version adds tables. Of the audit log a partition is given nothing: entries go through
-- the parent.
CREATE FUNCTION tickwise.grant_service(grantee name) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  part text;
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tickwise TO %I', grantee);
  FOR part IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relkind IN ('r', 'p')
              AND (c.relname IN ('audit', 'audit_seals', 'audit_checkpoints') OR c.relispartition AND c.relname LIKE 'audit\_%') LOOP
    EXECUTE format('REVOKE ALL ON tickwise.%I FROM %I', part, grantee);
  END LOOP;
  EXECUTE format('GRANT SELECT, INSERT ON tickwise.audit, tickwise.audit_seals TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.audit_checkpoints TO %I', grantee);
  EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON tickwise.schema_version, tickwise.alembic_version FROM %I', grantee);
  EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT EXECUTE ON FUNCTION tickwise.audit_make(date), tickwise.audit_retire(date), '
                 'tickwise.service_partition_make(text, text, uuid, uuid), '
                 'tickwise.service_history_retire(text, uuid, uuid, timestamptz, timestamptz), '
                 'tickwise.service_jobs_retire(text, uuid, uuid) TO %I', grantee);
END $$;
