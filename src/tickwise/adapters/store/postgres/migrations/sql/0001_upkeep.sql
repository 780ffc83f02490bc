-- Partitions: made ahead of time, dropped when all in them is past its time. Each step is one short transaction that gives
-- up (lock_not_available) rather than make the hot path wait behind it; the next round tries again.

-- Tables for this transaction alone, all of them or none. Whoever comes while we wait waits behind us: so each try is a tenth of a second,
-- and between two the others have more time than we took. Who reads for long keeps us out, and nobody else.
CREATE FUNCTION tickwise.lock_briefly(names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  FOR try IN 1..10 LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '100ms', true);
      FOREACH name IN ARRAY names LOOP
        EXECUTE format('LOCK TABLE ONLY tickwise.%I IN ACCESS EXCLUSIVE MODE', name);
      END LOOP;
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF try = 10 THEN
        RAISE;
      END IF;
    END;
    PERFORM pg_sleep(0.4);
  END LOOP;
END
$$;

-- Make a partition. What its default sibling took in its place moves into it first. Attached rather than made in place,
-- because that leaves readers and writers of the others alone. But where something moves, everybody waits at the parent: who
-- had listed its partitions before, and waited at the sibling, would look for the row there, after it had gone.
CREATE FUNCTION tickwise.partition_make(parent text, name text, low uuid, high uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  rest text := CASE parent WHEN 'history' THEN 'history_rest' ELSE 'jobs_rest' END;
  id text := CASE parent WHEN 'history' THEN 'run_id' ELSE 'job_id' END;
  look text := format('SELECT count(*) > 0 FROM (SELECT FROM tickwise.%I WHERE %I >= $1 AND %I < $2 LIMIT 1) s', rest, id, id);
  moves boolean;
  late boolean;
BEGIN
  EXECUTE look INTO moves USING low, high;
  -- At once as strongly as attaching needs it: what came in between would have no place, and all would have been in vain.
  PERFORM tickwise.lock_briefly(CASE WHEN moves THEN ARRAY[parent, rest] ELSE ARRAY[rest] END);
  EXECUTE look INTO late USING low, high;
  IF late AND NOT moves THEN
    RAISE 'rows came in before the lock' USING ERRCODE = 'lock_not_available';
  END IF;
  EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
                  WITH (autovacuum_vacuum_insert_threshold = 1000000, autovacuum_analyze_threshold = 1000000)', name, parent);
  EXECUTE format('WITH moved AS (DELETE FROM tickwise.%I WHERE %I >= $1 AND %I < $2 RETURNING *)
                  INSERT INTO tickwise.%I SELECT * FROM moved', rest, id, id, name) USING low, high;
  EXECUTE format('ALTER TABLE tickwise.%I ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', parent, name, low, high);
  RETURN true;
END
$$;

-- Give up a partition of history. What must outlive it (failed runs, runs that ended late, those from which a
-- sequence has yet to go on) moves to a small one in its place, which is complete, with its indexes, before anybody has to wait. When
-- the first run in it that did not fail ended is noted as its comment: until that is past its time too, or all failed runs of the day
-- are, it is not read again. Answers what was done: 'dropped', 'replaced', or 'kept' when there is nothing to gain.
CREATE FUNCTION tickwise.history_retire(name text, low uuid, high uuid, since timestamptz, failed_since timestamptz)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  small boolean := name LIKE '%\_kept';
  smaller text := name || '_kept';
  kept bigint;
  over timestamptz := date_trunc('milliseconds', to_timestamp(('x' || left(replace(high::text, '-', ''), 12))::bit(48)::bigint / 1000.0));
  first text;
  wanted text := format('ended >= %L OR state = 6 AND ended >= %L OR run_id IN (SELECT run_id FROM tickwise.follows)', since, failed_since);
BEGIN
  IF small AND over >= failed_since AND coalesce(obj_description(format('tickwise.%I', name)::regclass), 'infinity')::timestamptz >= since THEN
    RETURN 'kept';
  END IF;
  PERFORM set_config('lock_timeout', '3s', true);
  -- Late finishers of such old runs wait for a moment; nobody else is touched until the swap.
  EXECUTE format('LOCK TABLE ONLY tickwise.%I IN SHARE ROW EXCLUSIVE MODE', name);
  IF small THEN
    EXECUTE format('DELETE FROM tickwise.%I WHERE NOT (%s)', name, wanted);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM tickwise.%I LIMIT 1) s', name) INTO kept;
    IF kept > 0 THEN
      EXECUTE format('SELECT min(ended)::text FROM tickwise.%I WHERE state <> 6', name) INTO first;
      EXECUTE format('COMMENT ON TABLE tickwise.%I IS %L', name, first);
      RETURN 'kept';
    END IF;
  ELSE
    EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES,
                    CONSTRAINT bounds CHECK (run_id >= %L AND run_id < %L))', smaller, low, high);
    EXECUTE format('INSERT INTO tickwise.%I SELECT * FROM tickwise.%I WHERE %s', smaller, name, wanted);
    GET DIAGNOSTICS kept = ROW_COUNT;
    EXECUTE format('SELECT min(ended)::text FROM tickwise.%I WHERE state <> 6', smaller) INTO first;
    EXECUTE format('COMMENT ON TABLE tickwise.%I IS %L', smaller, first);
  END IF;
  PERFORM tickwise.lock_briefly(ARRAY['history', 'history_rest', name]);
  EXECUTE format('ALTER TABLE tickwise.history DETACH PARTITION tickwise.%I', name);
  EXECUTE format('DROP TABLE tickwise.%I', name);
  IF kept > 0 THEN
    EXECUTE format('ALTER TABLE tickwise.history ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', smaller, low, high);
    EXECUTE format('ALTER TABLE tickwise.%I DROP CONSTRAINT bounds', smaller);
    RETURN 'replaced';
  ELSIF NOT small THEN
    EXECUTE format('DROP TABLE tickwise.%I', smaller);
  END IF;
  RETURN 'dropped';
END
$$;

-- Give up a partition of one-time jobs. Those that have a timer, a run, or a run on record move to the lasting ones first; the
-- lock keeps people from asking for new runs of the others meanwhile.
CREATE FUNCTION tickwise.jobs_retire(name text, low uuid, high uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('lock_timeout', '3s', true);
  EXECUTE format('LOCK TABLE ONLY tickwise.%I IN EXCLUSIVE MODE', name);
  UPDATE tickwise.jobs SET lasting = true
  WHERE NOT lasting AND job_id >= low AND job_id < high AND job_id IN (
    SELECT job_id FROM tickwise.timers WHERE job_id >= low AND job_id < high
    UNION SELECT job_id FROM tickwise.runs WHERE job_id >= low AND job_id < high
    UNION SELECT job_id FROM tickwise.history WHERE job_id >= low AND job_id < high);
  PERFORM tickwise.lock_briefly(ARRAY['jobs_passing', 'jobs_rest', name]);
  EXECUTE format('DROP TABLE tickwise.%I', name);
  RETURN true;
END
$$;
