-- Several databases of one installation: the map of shards, which the first one keeps, and the place of this database in it.

-- The version of the map. Its row is locked by each change, so changes come one after the other. A number never comes back.
CREATE TABLE tickwise.shard_map (
  version     bigint NOT NULL,
  next_number int NOT NULL,
  single      boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO tickwise.shard_map (version, next_number) VALUES (1, 1);

CREATE TABLE tickwise.shards (
  added      timestamptz NOT NULL,
  number     int PRIMARY KEY,
  state      text NOT NULL CHECK (state IN ('open', 'draining')),
  cluster_id text NOT NULL UNIQUE
);

CREATE TABLE tickwise.shard_places (
  shard     int NOT NULL REFERENCES tickwise.shards,
  moving_to int REFERENCES tickwise.shards,
  namespace text PRIMARY KEY
);
CREATE INDEX shard_places_shard ON tickwise.shard_places (shard);

-- The installation that this database belongs to, by the identity of its first database. No row: it stands alone.
CREATE TABLE tickwise.shard_membership (
  joined        timestamptz NOT NULL,
  number        int NOT NULL,
  first_cluster text NOT NULL,
  single        boolean PRIMARY KEY DEFAULT true CHECK (single)
);

-- Namespaces that leave this database, and those that have left it. `copying`: its changes are noted. `fenced`: it takes no writes until
-- `until`; then the fence is void, so a mover that died holds nobody up. `left`: it takes no writes for good.
CREATE TABLE tickwise.shard_departures (
  begun     timestamptz NOT NULL,
  until     timestamptz NOT NULL,
  move_id   uuid NOT NULL,
  cleaned   boolean NOT NULL DEFAULT false,  -- none of its rows is left
  state     text NOT NULL CHECK (state IN ('copying', 'fenced', 'left')),
  namespace text PRIMARY KEY,
  goal      text NOT NULL                    -- the database that it goes to
);

-- Rows of such namespaces that changed since they were copied.
CREATE TABLE tickwise.shard_changes (
  change    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text NOT NULL,
  relation  text NOT NULL,
  key       text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX shard_changes_namespace ON tickwise.shard_changes (namespace, change);

-- Runs that were held when their namespace left: their holders may report the end here.
CREATE TABLE tickwise.shard_departed_runs (
  at        timestamptz NOT NULL,
  run_id    uuid PRIMARY KEY,
  namespace text NOT NULL
);

-- Namespaces that come to this database, and those that came. `staged`: all of it is here. `arrived`: it works here.
CREATE TABLE tickwise.shard_arrivals (
  begun     timestamptz NOT NULL,
  move_id   uuid NOT NULL,
  state     text NOT NULL CHECK (state IN ('copying', 'staged', 'arrived')),
  namespace text PRIMARY KEY,
  source    text NOT NULL,                   -- the database that it comes from
  cursors   jsonb NOT NULL DEFAULT '{}'      -- by table: the key up to which it is copied; null: all of it
);

-- Whether a namespace takes no writes here. The session of the mover itself passes.
CREATE FUNCTION tickwise.shard_check(of_namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('tickwise.shard_mover', true) = 'on' THEN
    RETURN;
  END IF;
  -- The fence waits for the transactions that have this lock.
  PERFORM pg_advisory_xact_lock_shared(8388355, hashtext(of_namespace));
  -- A statement of its own, so that it sees a fence that was committed while the one above waited.
  IF EXISTS (SELECT FROM tickwise.shard_departures d
             WHERE d.namespace = of_namespace AND (d.state = 'left' OR d.state = 'fenced' AND d.until > clock_timestamp())) THEN
    RAISE EXCEPTION 'the namespace % is not here any more', of_namespace USING ERRCODE = 'TW002', DETAIL = of_namespace;
  END IF;
END
$$;

-- On a table of which rows leave: refuse what is written for a namespace that is fenced or has left, and note what changes of one that is
-- copied. Its arguments: the namespace of a row `c`, and its key as text (empty: changes need not be noted).
CREATE FUNCTION tickwise.shard_watch() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found text;
BEGIN
  FOR found IN EXECUTE format(
    'SELECT DISTINCT d.namespace FROM (SELECT %s AS namespace FROM changed c) c JOIN tickwise.shard_departures d ON d.namespace = c.namespace',
    TG_ARGV[0])
  LOOP
    PERFORM tickwise.shard_check(found);
    IF TG_ARGV[1] <> '' THEN
      EXECUTE format('INSERT INTO tickwise.shard_changes (namespace, relation, key) SELECT $1, $2, %s FROM changed c WHERE %s = $1',
                     TG_ARGV[1], TG_ARGV[0]) USING found, TG_TABLE_NAME;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;

-- The same for the table of active runs, row by row: rows of other namespaces cost a comparison, and none is kept for it.
CREATE FUNCTION tickwise.shard_watch_run() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM tickwise.shard_check(TG_ARGV[0]);
  RETURN CASE TG_OP WHEN 'DELETE' THEN old ELSE new END;
END
$$;

-- Watch a table: an event each (INSERT, UPDATE, DELETE). Not in a database that no namespace has left: it has none of these triggers.
CREATE FUNCTION tickwise.shard_watch_table(relation text, of_namespace text, of_key text, events text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  event text;
BEGIN
  FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE'] LOOP
    CONTINUE WHEN event = ANY(events) = EXISTS (
      SELECT FROM pg_trigger t
      WHERE t.tgrelid = format('tickwise.%I', relation)::regclass AND t.tgname = 'shard_watch_' || lower(event));
    PERFORM tickwise.shard_lock(relation);
    IF event = ANY(events) THEN
      EXECUTE format(
        'CREATE TRIGGER %I AFTER %s ON tickwise.%I REFERENCING %s TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tickwise.shard_watch(%L, %L)',
        'shard_watch_' || lower(event), event, relation, CASE event WHEN 'DELETE' THEN 'OLD' ELSE 'NEW' END, of_namespace, of_key);
    ELSE
      EXECUTE format('DROP TRIGGER %I ON tickwise.%I', 'shard_watch_' || lower(event), relation);
    END IF;
  END LOOP;
END
$$;

-- Watch the active runs of one namespace, or no longer.
CREATE FUNCTION tickwise.shard_watch_runs(of_namespace text, watched boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text := 'shard_runs_' || md5(of_namespace);
BEGIN
  IF watched = EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'tickwise.runs'::regclass AND t.tgname = name) THEN
    RETURN;
  END IF;
  PERFORM tickwise.shard_lock('runs');
  IF watched THEN
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON tickwise.runs FOR EACH ROW WHEN (old.namespace = %L) EXECUTE FUNCTION tickwise.shard_watch_run(%L)',
                   name, of_namespace, of_namespace);
  ELSE
    EXECUTE format('DROP TRIGGER %I ON tickwise.runs', name);
  END IF;
END
$$;

-- A table for the making of a trigger, until this transaction ends. Writers that come while we wait, wait behind us: for 50 ms at most, and
-- then they have more time than we took. Writers that have long transactions keep us out, and nobody else.
CREATE FUNCTION tickwise.shard_lock(relation text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR try IN 1..100 LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '50ms', true);
      EXECUTE format('LOCK TABLE ONLY tickwise.%I IN ACCESS EXCLUSIVE MODE', relation);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF try = 100 THEN
        RAISE;
      END IF;
    END;
    PERFORM pg_sleep(0.1);
  END LOOP;
END
$$;

-- Entries of the audit log of a namespace that has left, or is yet to come, are removed: they are whole in the other database.
CREATE FUNCTION tickwise.shard_audit_clean(of_namespace text, most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  gone int;
  cleaned int := 0;
  relation text;
BEGIN
  IF EXISTS (SELECT FROM tickwise.shard_arrivals a WHERE a.namespace = of_namespace AND a.state = 'arrived')
     OR NOT EXISTS (SELECT FROM tickwise.shard_departures d WHERE d.namespace = of_namespace AND d.state = 'left')
        AND NOT EXISTS (SELECT FROM tickwise.shard_arrivals a WHERE a.namespace = of_namespace) THEN
    RAISE 'the namespace % is here', of_namespace USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM set_config('tickwise.audit_retires', pg_current_xact_id()::text, true);
  FOREACH relation IN ARRAY ARRAY['audit', 'audit_seals', 'audit_checkpoints'] LOOP
    EXECUTE format('DELETE FROM tickwise.%I t WHERE (t.tableoid, t.ctid) IN (
                      SELECT s.tableoid, s.ctid FROM tickwise.%I s WHERE s.namespace = $1 LIMIT $2)', relation, relation)
      USING of_namespace, most;
    GET DIAGNOSTICS gone = ROW_COUNT;
    cleaned := cleaned + gone;
  END LOOP;
  PERFORM set_config('tickwise.audit_retires', '', true);
  RETURN cleaned;
END
$$;
REVOKE ALL ON FUNCTION tickwise.shard_watch_table(text, text, text, text[]), tickwise.shard_watch_runs(text, boolean),
  tickwise.shard_lock(text), tickwise.shard_audit_clean(text, int) FROM PUBLIC;

-- Ended runs that came with their namespace go to their partitions, and not through `history` itself, whose triggers would count them again,
-- tell rules of them, and group their errors. `of_rows`: a table of such rows, which is empty then.
CREATE FUNCTION tickwise.shard_history_in(of_rows regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  part record;
BEGIN
  FOR part IN
    SELECT i.inhrelid::regclass AS name, substring(b.bounds FROM $re$FROM \('([^']+)'\)$re$)::uuid AS low,
           substring(b.bounds FROM $re$TO \('([^']+)'\)$re$)::uuid AS high
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bounds) b
    WHERE i.inhparent = 'tickwise.history'::regclass ORDER BY b.bounds = 'DEFAULT', low
  LOOP
    EXECUTE format('WITH m AS (DELETE FROM %s r WHERE $1 IS NULL OR r.run_id >= $1 AND r.run_id < $2 RETURNING *)
                    INSERT INTO %s SELECT * FROM m ON CONFLICT DO NOTHING', of_rows, part.name) USING part.low, part.high;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tickwise.shard_history_in(regclass) FROM PUBLIC;
