-- The legal moves of a run, refused here too whatever a program does. The pairs are those of
-- `tickwise.domain.lifecycle.steps()` and its codes; a test compares the two.
-- 1 QUEUED, 2 DISPATCHED, 3 RUNNING, 4 RETRYING, 5 SUCCESS, 6 FAILED, 7 CANCELLED, 8 SKIPPED.

CREATE FUNCTION tickwise.refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'run % cannot go from state % to state %', old.run_id, old.state, new.state
    USING ERRCODE = 'check_violation', CONSTRAINT = 'runs_moves';
END
$$;

-- A legal move costs a comparison: the function is called only to refuse.
CREATE TRIGGER runs_moves AFTER UPDATE OF state ON tickwise.runs FOR EACH ROW
  WHEN (NOT (CASE old.state WHEN 1 THEN new.state = 2 WHEN 2 THEN new.state IN (1, 3, 4) WHEN 3 THEN new.state IN (1, 4)
                            WHEN 4 THEN new.state = 2 ELSE false END))
  EXECUTE FUNCTION tickwise.refuse_move();

-- What happened has happened.
CREATE FUNCTION tickwise.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'history is never changed (run %)', old.run_id USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER history_fixed BEFORE UPDATE ON tickwise.history FOR EACH ROW EXECUTE FUNCTION tickwise.refuse_change();

-- What comes on record is counted by the statement that writes it, whichever it is: 0.3 us a run in batches of 500, 20 us a statement.
CREATE FUNCTION tickwise.tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tickwise.tallies_new (hour, runs, state, namespace)
  SELECT date_bin('1 hour', tickwise.now(), to_timestamp(0)), count(*), state, namespace FROM came GROUP BY state, namespace;
  RETURN NULL;
END
$$;
CREATE TRIGGER history_tally AFTER INSERT ON tickwise.history REFERENCING NEW TABLE AS came
  FOR EACH STATEMENT EXECUTE FUNCTION tickwise.tally();

-- A final state is reached only from where the table allows it.
ALTER TABLE tickwise.history ADD CONSTRAINT history_moves CHECK (
  state >= 5 AND state <= 8
  AND CASE before WHEN 2 THEN true WHEN 3 THEN state < 8 WHEN 1 THEN state > 6 WHEN 4 THEN state = 7 ELSE false END);
