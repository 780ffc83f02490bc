-- Partitions: made ahead of time, dropped when all in them is past its time. Each step is one short transaction that gives
-- up (lock_not_available) rather than make the hot path wait behind it; the next round tries again.

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
  PERFORM set_config('lock_timeout', '3s', true);
  EXECUTE look INTO moves USING low, high;
  IF moves THEN
    EXECUTE format('LOCK TABLE ONLY tickwise.%I IN ACCESS EXCLUSIVE MODE', parent);
  END IF;
  -- At once as strongly as attaching needs it: what came in between would have no place, and all would have been in vain.
  EXECUTE format('LOCK TABLE ONLY tickwise.%I IN ACCESS EXCLUSIVE MODE', rest);
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
-- sequence has yet to go on) moves to a small one in its
-- place. Answers what was done: 'dropped', 'replaced', or 'kept' when there is nothing to gain.
CREATE FUNCTION tickwise.history_retire(name text, low uuid, high uuid, since timestamptz, failed_since timestamptz)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  small boolean := name LIKE '%\_kept';
  smaller text := name || '_kept';
  kept bigint;
  wanted text := format('ended >= %L OR state = 6 AND ended >= %L OR run_id IN (SELECT run_id FROM tickwise.follows)', since, failed_since);
BEGIN
  PERFORM set_config('lock_timeout', '3s', true);
  -- Late finishers of such old runs wait for a moment; nobody else is touched until the swap.
  EXECUTE format('LOCK TABLE ONLY tickwise.%I IN SHARE ROW EXCLUSIVE MODE', name);
  IF small THEN
    EXECUTE format('DELETE FROM tickwise.%I WHERE NOT (%s)', name, wanted);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM tickwise.%I LIMIT 1) s', name) INTO kept;
    IF kept > 0 THEN
      RETURN 'kept';
    END IF;
  ELSE
    EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', smaller);
    EXECUTE format('INSERT INTO tickwise.%I SELECT * FROM tickwise.%I WHERE %s', smaller, name, wanted);
    GET DIAGNOSTICS kept = ROW_COUNT;
  END IF;
  EXECUTE format('ALTER TABLE tickwise.history DETACH PARTITION tickwise.%I', name);
  EXECUTE format('DROP TABLE tickwise.%I', name);
  IF kept > 0 THEN
    EXECUTE format('ALTER TABLE tickwise.history ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', smaller, low, high);
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
  EXECUTE format('DROP TABLE tickwise.%I', name);
  RETURN true;
END
$$;
