-- The rows of one namespace, table by table: which they are, how they are read, put in their place and removed. `owner` says how a row names
-- its namespace: itself (namespace, name, principal), or by its job, run, group of errors, status page, channel or objective.

-- The namespace of a row `c`.
CREATE FUNCTION tickwise.shard_owner(owner text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE owner
    WHEN 'namespace' THEN 'c.namespace'
    WHEN 'name' THEN 'c.name'
    WHEN 'principal' THEN 'split_part(c.principal, ''/'', 1)'
    WHEN 'job' THEN '(SELECT o.namespace FROM tickwise.jobs o WHERE o.job_id = c.job_id LIMIT 1)'
    WHEN 'run' THEN 'coalesce((SELECT o.namespace FROM tickwise.runs o WHERE o.run_id = c.run_id), (SELECT o.namespace FROM tickwise.history o WHERE o.run_id = c.run_id))'
    WHEN 'group' THEN '(SELECT o.namespace FROM tickwise.error_groups o WHERE o.group_id = c.group_id)'
    WHEN 'page' THEN '(SELECT o.namespace FROM tickwise.status_pages o WHERE o.page_id = c.page_id)'
    WHEN 'channel' THEN '(SELECT o.namespace FROM tickwise.channels o WHERE o.channel_id = c.channel_id)'
    WHEN 'objective' THEN '(SELECT o.namespace FROM tickwise.objectives o WHERE o.objective_id = c.objective_id)' END
$$;

-- The condition on a row `c` to be of a namespace. By sets of parents where those are read by an index.
CREATE FUNCTION tickwise.shard_scope(owner text, of_namespace text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE owner
    WHEN 'job' THEN format('c.job_id IN (SELECT o.job_id FROM tickwise.jobs o WHERE o.namespace = %L)', of_namespace)
    WHEN 'group' THEN format('c.group_id IN (SELECT o.group_id FROM tickwise.error_groups o WHERE o.namespace = %L)', of_namespace)
    WHEN 'page' THEN format('c.page_id IN (SELECT o.page_id FROM tickwise.status_pages o WHERE o.namespace = %L)', of_namespace)
    WHEN 'channel' THEN format('c.channel_id IN (SELECT o.channel_id FROM tickwise.channels o WHERE o.namespace = %L)', of_namespace)
    WHEN 'objective' THEN format('c.objective_id IN (SELECT o.objective_id FROM tickwise.objectives o WHERE o.namespace = %L)', of_namespace)
    ELSE format('%s = %L', tickwise.shard_owner(owner), of_namespace) END
$$;

-- The columns of a table, as a list; `lane` as the number that it has in the other database, which `lanes_moved` of the session says.
CREATE FUNCTION tickwise.shard_columns(relation text, moved boolean) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT string_agg(CASE WHEN moved AND a.attname = 'lane' THEN '(SELECT m.there FROM pg_temp.lanes_moved m WHERE m.here = c.lane)'
                         WHEN moved THEN format('c.%I', a.attname) ELSE format('%I', a.attname) END, ', ' ORDER BY a.attnum)
  FROM pg_attribute a
  WHERE a.attrelid = format('tickwise.%I', relation)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
$$;

-- The last key of the next page of a table: after that key, at most so many rows. NULL: there is none.
CREATE FUNCTION tickwise.shard_page(relation text, owner text, of_namespace text, of_key text, after text, most int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  last text;
BEGIN
  EXECUTE format('SELECT p.k::text FROM (SELECT c.%1$I AS k FROM tickwise.%2$I c WHERE %3$s %4$s ORDER BY c.%1$I LIMIT %5$s) p ORDER BY p.k DESC LIMIT 1',
                 of_key, relation, tickwise.shard_scope(owner, of_namespace),
                 CASE WHEN after IS NOT NULL THEN format('AND c.%I > %L', of_key, after) ELSE '' END, most) INTO last;
  RETURN last;
END
$$;

-- The statement that reads rows of a namespace as the other database wants them: all; or those after a key up to another one; those since a
-- time; those with one of these keys.
CREATE FUNCTION tickwise.shard_read(relation text, owner text, of_namespace text, of_key text, after text, upto text, since timestamptz,
                                    keys uuid[]) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT format('SELECT %s FROM tickwise.%I c WHERE %s', tickwise.shard_columns(relation, true), relation,
                CASE WHEN keys IS NULL OR owner IN ('namespace', 'job') THEN tickwise.shard_scope(owner, of_namespace) ELSE 'true' END)
    || CASE WHEN after IS NOT NULL THEN format(' AND c.%I > %L', of_key, after) ELSE '' END
    || CASE WHEN upto IS NOT NULL THEN format(' AND c.%I <= %L', of_key, upto) ELSE '' END
    || CASE WHEN since IS NOT NULL THEN format(' AND c.at >= %L', since) ELSE '' END
    || CASE WHEN keys IS NOT NULL THEN format(' AND c.%I = ANY(%L::uuid[])', of_key, keys::text) ELSE '' END
$$;

-- Remove rows of a namespace that is not here any more, or not yet: at most so many (NULL: all). How many.
CREATE FUNCTION tickwise.shard_remove(relation text, owner text, of_namespace text, most int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  gone bigint;
BEGIN
  EXECUTE CASE WHEN most IS NULL THEN format('DELETE FROM tickwise.%I c WHERE %s', relation, tickwise.shard_scope(owner, of_namespace))
    ELSE format('DELETE FROM tickwise.%1$I d USING (SELECT c.tableoid, c.ctid FROM tickwise.%1$I c WHERE %2$s LIMIT %3$s) s
                 WHERE d.tableoid = s.tableoid AND d.ctid = s.ctid', relation, tickwise.shard_scope(owner, of_namespace), most) END;
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN gone;
END
$$;

-- The name of the table in which rows of a namespace wait until it arrives: nobody acts on them there.
CREATE FUNCTION tickwise.shard_staging(relation text, of_namespace text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'arriving_' || left(md5(of_namespace), 12) || '_' || relation
$$;

-- Make it, with an index of the key if rows are to be replaced in it; or drop it.
CREATE FUNCTION tickwise.shard_staging_make(relation text, of_namespace text, of_key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS tickwise.%I (LIKE tickwise.%I INCLUDING DEFAULTS)', tickwise.shard_staging(relation, of_namespace), relation);
  IF of_key IS NOT NULL THEN
    EXECUTE format('CREATE INDEX IF NOT EXISTS %1$I ON tickwise.%2$I (%3$I)', tickwise.shard_staging(relation, of_namespace) || '_key',
                   tickwise.shard_staging(relation, of_namespace), of_key);
  END IF;
END
$$;
CREATE FUNCTION tickwise.shard_staging_drop(relation text, of_namespace text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('DROP TABLE IF EXISTS tickwise.%I', tickwise.shard_staging(relation, of_namespace));
END
$$;
CREATE FUNCTION tickwise.shard_staging_empty(relation text, of_namespace text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('DELETE FROM tickwise.%I', tickwise.shard_staging(relation, of_namespace));
END
$$;

-- A table of this transaction for the rows that come, as they are in the other one.
CREATE FUNCTION tickwise.shard_incoming(relation text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TEMP TABLE incoming (LIKE tickwise.%I) ON COMMIT DROP', relation);
END
$$;

-- Put them in their place. `keys`: what has one of these keys is replaced (a row that did not come was deleted). Ended runs go to their
-- partitions; what is never changed is added where it is not there yet; for an attempt that failed the group of its error is known already.
CREATE FUNCTION tickwise.shard_put(relation text, of_namespace text, staged boolean, of_key text, keys uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  place text := CASE WHEN staged THEN tickwise.shard_staging(relation, of_namespace) ELSE relation END;
BEGIN
  IF relation = 'history' THEN
    PERFORM tickwise.shard_history_in('pg_temp.incoming'::regclass);
  ELSIF relation IN ('audit', 'audit_seals') AND NOT staged THEN
    EXECUTE format('INSERT INTO tickwise.%1$I SELECT * FROM pg_temp.incoming i
                    WHERE NOT EXISTS (SELECT FROM tickwise.%1$I a WHERE a.namespace = i.namespace AND a.%2$I = i.%2$I AND a.at = i.at)',
                   relation, CASE relation WHEN 'audit' THEN 'entry' ELSE 'seq' END);
  ELSIF relation = 'attempts' THEN
    INSERT INTO tickwise.attempts SELECT * FROM pg_temp.incoming ON CONFLICT DO NOTHING;
    DELETE FROM tickwise.failures_new f USING pg_temp.incoming i WHERE f.run_id = i.run_id AND f.token = i.token;
  ELSE
    IF keys IS NOT NULL THEN
      EXECUTE format('DELETE FROM tickwise.%I WHERE %I = ANY($1)', place, of_key) USING keys;
    END IF;
    EXECUTE format('INSERT INTO tickwise.%I SELECT * FROM pg_temp.incoming', place);
  END IF;
END
$$;

-- What waited takes effect: it goes to its table.
CREATE FUNCTION tickwise.shard_let_in(relations text[], of_namespace text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  relation text;
BEGIN
  FOREACH relation IN ARRAY relations LOOP
    EXECUTE format('INSERT INTO tickwise.%I SELECT * FROM tickwise.%I ON CONFLICT DO NOTHING', relation, tickwise.shard_staging(relation, of_namespace));
  END LOOP;
END
$$;

-- Tokens and numbers of entries that are drawn here from now on are above these. The last bits of a token, which may name a database, stay.
CREATE FUNCTION tickwise.shard_lift(token bigint, entry bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  fence bigint := (SELECT last_value FROM tickwise.fence);
  entries bigint := (SELECT last_value FROM tickwise.audit_entries);
BEGIN
  -- Far above: others draw numbers meanwhile.
  IF token >= fence THEN
    PERFORM setval('tickwise.fence', fence + ((token - fence) / 64 + 16384) * 64);
  END IF;
  IF entry >= entries THEN
    PERFORM setval('tickwise.audit_entries', entry + 1048576);
  END IF;
END
$$;
DO $$
DECLARE
  part regprocedure;
BEGIN
  FOR part IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'tickwise'::regnamespace AND p.proname LIKE 'shard\_%'
              AND p.proname NOT IN ('shard_check', 'shard_watch', 'shard_watch_run') LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', part);
  END LOOP;
END
$$;
