-- The audit log: entries by day, what is not sealed yet, the chains of seals, and where chains begin after retention.

CREATE SEQUENCE tickwise.audit_entries;

CREATE TABLE tickwise.audit (
  at          timestamptz NOT NULL,
  entry       bigint NOT NULL DEFAULT nextval('tickwise.audit_entries'),
  caller_id   uuid,
  namespace   text NOT NULL,            -- '*': the installation
  action      text NOT NULL,
  caller_kind text NOT NULL,
  caller      text NOT NULL,
  address     text NOT NULL,
  request_id  text NOT NULL,
  target_kind text NOT NULL,
  target      text,
  targets     uuid[],                   -- of an entry about several things
  before      text,
  after       text,
  detail      text
) PARTITION BY RANGE (at);
CREATE TABLE tickwise.audit_rest PARTITION OF tickwise.audit DEFAULT;
CREATE INDEX audit_time ON tickwise.audit (at, entry);
CREATE INDEX audit_namespace ON tickwise.audit (namespace, at, entry);

-- An entry is here until it is sealed: written with it, deleted with its seal.
CREATE TABLE tickwise.audit_unsealed (
  at        timestamptz NOT NULL,
  entry     bigint NOT NULL,
  namespace text NOT NULL,
  PRIMARY KEY (namespace, entry)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE tickwise.audit_seals (
  at        timestamptz NOT NULL,
  since     timestamptz NOT NULL,       -- the earliest entry
  until     timestamptz NOT NULL,       -- the latest entry, of the same day
  seq       bigint NOT NULL,
  namespace text NOT NULL,
  entries   bigint[] NOT NULL,
  digests   bytea NOT NULL,             -- of each entry, 32 bytes
  previous  bytea NOT NULL,
  hash      bytea NOT NULL,
  PRIMARY KEY (namespace, seq)
);

CREATE TABLE tickwise.audit_checkpoints (
  at             timestamptz NOT NULL,
  dropped_before timestamptz NOT NULL,
  seq            bigint NOT NULL,       -- the last seal that was dropped
  namespace      text NOT NULL,
  hash           bytea NOT NULL,
  PRIMARY KEY (namespace, dropped_before)
);

-- The second wall, behind the rights of roles: it stops a caller who has all of them and does not mean it. Only `audit_retire` passes, to delete.
CREATE FUNCTION tickwise.audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('tickwise.audit_retires', true) IS NOT DISTINCT FROM pg_current_xact_id()::text THEN
    RETURN OLD;
  END IF;
  RAISE 'the audit log is append-only: % of % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON tickwise.audit FOR EACH ROW EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON tickwise.audit FOR EACH STATEMENT EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON tickwise.audit_rest FOR EACH STATEMENT EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON tickwise.audit_seals FOR EACH ROW EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON tickwise.audit_seals FOR EACH STATEMENT EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON tickwise.audit_checkpoints
  FOR EACH ROW EXECUTE FUNCTION tickwise.audit_refuse();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON tickwise.audit_checkpoints
  FOR EACH STATEMENT EXECUTE FUNCTION tickwise.audit_refuse();

-- Make the partition of a day (UTC), unless it is there, or entries of that day lie in `audit_rest`: they stay there. The rights of the
-- owner, because a role that writes entries makes no tables.
CREATE FUNCTION tickwise.audit_make(day date) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := 'audit_' || to_char(day, 'YYYYMMDD');
  low timestamptz := day::timestamp AT TIME ZONE 'UTC';
  high timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
  rests boolean;
BEGIN
  IF to_regclass('tickwise.' || name) IS NOT NULL THEN
    RETURN NULL;
  END IF;
  PERFORM tickwise.lock_briefly(ARRAY['audit_rest']);
  SELECT count(*) > 0 INTO rests FROM (SELECT FROM tickwise.audit_rest WHERE at >= low AND at < high LIMIT 1) s;
  IF rests THEN
    RETURN NULL;
  END IF;
  EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.audit INCLUDING DEFAULTS)', name);
  EXECUTE format('CREATE TRIGGER audit_whole BEFORE TRUNCATE ON tickwise.%I FOR EACH STATEMENT EXECUTE FUNCTION tickwise.audit_refuse()', name);
  EXECUTE format('ALTER TABLE tickwise.audit ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', name, low, high);
  RETURN name;
END
$$;

-- Drop the entries of days before this one, with the seals that begin their chains, and note where the chains begin then. Not within 30
-- days, for any caller: a role that may call this is not to remove what it has just done. Entries that are not sealed keep all. Answers the
-- partitions that were dropped.
CREATE FUNCTION tickwise.audit_retire(day date) RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  low timestamptz := day::timestamp AT TIME ZONE 'UTC';
  name text;
  names text[];
BEGIN
  IF low > tickwise.now() - interval '30 days' THEN
    RAISE 'entries of the last 30 days are kept' USING ERRCODE = 'insufficient_privilege';
  END IF;
  SELECT coalesce(array_agg(c.relname::text ORDER BY c.relname), '{}') INTO names
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'tickwise.audit'::regclass AND c.relname ~ '^audit_\d{8}$' AND right(c.relname, 8) < to_char(day, 'YYYYMMDD');
  IF names = '{}' AND NOT EXISTS (SELECT FROM tickwise.audit_rest WHERE at < low)
     OR EXISTS (SELECT FROM tickwise.audit_unsealed WHERE at < low) THEN
    RETURN '{}';
  END IF;
  PERFORM set_config('tickwise.audit_retires', pg_current_xact_id()::text, true);
  PERFORM tickwise.lock_briefly(ARRAY['audit', 'audit_rest'] || names);
  FOREACH name IN ARRAY names LOOP
    EXECUTE format('DROP TABLE tickwise.%I', name);
  END LOOP;
  DELETE FROM tickwise.audit_rest WHERE at < low;
  WITH goes AS (
    SELECT s.namespace, s.seq, s.hash FROM tickwise.audit_seals s
    WHERE s.until < low AND NOT EXISTS (
      SELECT FROM tickwise.audit_seals k WHERE k.namespace = s.namespace AND k.seq < s.seq AND k.until >= low)
  ),
  begins AS (
    INSERT INTO tickwise.audit_checkpoints (at, dropped_before, seq, namespace, hash)
    SELECT DISTINCT ON (h.namespace) tickwise.now(), low, coalesce(g.seq, c.seq, 0), h.namespace, coalesce(g.hash, c.hash, decode(repeat('00', 32), 'hex'))
    FROM (SELECT DISTINCT s.namespace FROM tickwise.audit_seals s WHERE s.until < low) h
    LEFT JOIN goes g ON g.namespace = h.namespace
    LEFT JOIN tickwise.audit_checkpoints c ON c.namespace = h.namespace
    ORDER BY h.namespace, g.seq DESC NULLS LAST, c.seq DESC NULLS LAST
    ON CONFLICT DO NOTHING
  )
  DELETE FROM tickwise.audit_seals s USING goes WHERE s.namespace = goes.namespace AND s.seq = goes.seq;
  PERFORM set_config('tickwise.audit_retires', '', true);
  RETURN names;
END
$$;
REVOKE ALL ON FUNCTION tickwise.audit_make(date), tickwise.audit_retire(date) FROM PUBLIC;

SELECT tickwise.audit_make((tickwise.now() AT TIME ZONE 'UTC')::date + d) FROM generate_series(0, 2) d;
