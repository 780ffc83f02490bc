-- The audit log in large installations: retention that holds nobody up, and one spelling of an entry.

-- An entry as it is sealed. Never change this: all seals hold digests of it, and another spelling needs another function. As the audit log
-- is read by its whole row, the call is spelled out in the statement, and costs nothing.
CREATE FUNCTION tickwise.audit_content(e tickwise.audit) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT convert_to(json_build_array(e.entry, (date_part('epoch', e.at) * 1000000)::bigint, e.namespace, e.action, e.caller_kind, e.caller_id,
    e.caller, e.address, e.request_id, e.target_kind, e.target, e.targets, e.before, e.after, e.detail)::text, 'UTF8')
$$;

-- Drop the entries of days before this one, the oldest eight days at a time, and note where the chains begin then; `audit_trim` removes
-- the rest of what goes. Not within 30 days, for any caller: a role that may call this is not to remove what it has just done. Entries that
-- are not sealed keep all. Answers the partitions that were dropped.
-- What the checkpoints need is looked up before the lock, under which each writer of an entry waits. Each chain is read from its begin to
-- the first seal that stays, and its places are read in order.
CREATE OR REPLACE FUNCTION tickwise.audit_retire(day date) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  low timestamptz := day::timestamp AT TIME ZONE 'UTC';
  name text;
  names text[];
  begins tickwise.audit_checkpoints[] := '{}';
  chain text;
  stays bigint;
  last record;
BEGIN
  IF low > tickwise.now() - interval '30 days' THEN
    RAISE 'entries of the last 30 days are kept' USING ERRCODE = 'insufficient_privilege';
  END IF;
  SELECT coalesce(array_agg(c.relname::text ORDER BY c.relname), '{}') INTO names
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'tickwise.audit'::regclass AND c.relname ~ '^audit_\d{8}$' AND right(c.relname, 8) < to_char(day, 'YYYYMMDD');
  IF cardinality(names) > 8 THEN
    names := names[1:8];
    low := (to_date(right(names[8], 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC';
  END IF;
  IF names = '{}' AND NOT EXISTS (SELECT FROM tickwise.audit_rest WHERE at < low)
     OR EXISTS (SELECT FROM tickwise.audit_unsealed WHERE at < low) THEN
    RETURN '{}';
  END IF;
  SELECT s.namespace INTO chain FROM tickwise.audit_seals s ORDER BY s.namespace LIMIT 1;
  WHILE chain IS NOT NULL LOOP
    IF EXISTS (SELECT FROM tickwise.audit_seals s WHERE s.namespace = chain AND s.until < low) THEN
      SELECT s.seq INTO stays FROM tickwise.audit_seals s WHERE s.namespace = chain AND s.until >= low ORDER BY s.namespace, s.seq LIMIT 1;
      SELECT s.seq, s.hash INTO last FROM tickwise.audit_seals s
      WHERE s.namespace = chain AND (stays IS NULL OR s.seq < stays) ORDER BY s.namespace DESC, s.seq DESC LIMIT 1;
      IF last.seq IS NULL THEN
        SELECT c.seq, c.hash INTO last FROM tickwise.audit_checkpoints c WHERE c.namespace = chain ORDER BY c.namespace DESC, c.dropped_before DESC LIMIT 1;
      END IF;
      begins := begins || ROW(tickwise.now(), low, coalesce(last.seq, 0), chain, coalesce(last.hash, decode(repeat('00', 32), 'hex')))::tickwise.audit_checkpoints;
    END IF;
    SELECT s.namespace INTO chain FROM tickwise.audit_seals s WHERE s.namespace > chain ORDER BY s.namespace LIMIT 1;
  END LOOP;
  IF names <> '{}' THEN
    PERFORM tickwise.lock_briefly(ARRAY['audit', 'audit_rest'] || names);
    FOREACH name IN ARRAY names LOOP
      EXECUTE format('DROP TABLE tickwise.%I', name);
    END LOOP;
  END IF;
  INSERT INTO tickwise.audit_checkpoints SELECT * FROM unnest(begins) ON CONFLICT DO NOTHING;
  RETURN names;
END
$$;

-- Remove what checkpoints say is gone, at most so many rows: first entries in `audit_rest`, then seals, of each chain in their order, so that
-- at any time what is left of a chain ends where its checkpoint says. How many.
CREATE FUNCTION tickwise.audit_trim(most int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  low timestamptz;
  gone int;
  trimmed int;
BEGIN
  PERFORM set_config('tickwise.audit_retires', pg_current_xact_id()::text, true);
  SELECT max(dropped_before) INTO low FROM tickwise.audit_checkpoints;
  DELETE FROM tickwise.audit_rest WHERE ctid = ANY(ARRAY(SELECT r.ctid FROM tickwise.audit_rest r WHERE r.at < low LIMIT most));
  GET DIAGNOSTICS trimmed = ROW_COUNT;
  IF trimmed < most THEN
    WITH goes AS MATERIALIZED (
      SELECT s.ctid AS place
      FROM (SELECT c.namespace, max(c.seq) AS seq FROM tickwise.audit_checkpoints c GROUP BY c.namespace) c
      CROSS JOIN LATERAL (SELECT s.ctid FROM tickwise.audit_seals s WHERE s.namespace = c.namespace AND s.seq <= c.seq
                          ORDER BY s.namespace, s.seq LIMIT most - trimmed) s
      LIMIT most - trimmed
    )
    DELETE FROM tickwise.audit_seals WHERE ctid = ANY(ARRAY(SELECT place FROM goes));
    GET DIAGNOSTICS gone = ROW_COUNT;
    trimmed := trimmed + gone;
  END IF;
  PERFORM set_config('tickwise.audit_retires', '', true);
  RETURN trimmed;
END
$$;
REVOKE ALL ON FUNCTION tickwise.audit_trim(int) FROM PUBLIC;

-- As before, and `audit_trim`.
CREATE OR REPLACE FUNCTION tickwise.grant_service(grantee name) RETURNS void LANGUAGE plpgsql AS $$
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
  EXECUTE format('GRANT EXECUTE ON FUNCTION tickwise.audit_make(date), tickwise.audit_retire(date), tickwise.audit_trim(int), '
                 'tickwise.service_partition_make(text, text, uuid, uuid), '
                 'tickwise.service_history_retire(text, uuid, uuid, timestamptz, timestamptz), '
                 'tickwise.service_jobs_retire(text, uuid, uuid) TO %I', grantee);
END $$;
