-- A journal of every move of every run, written by triggers in the transaction of the move itself, so that it is there
-- exactly if the move is. One trigger call a statement: the hot path moves hundreds of runs in one.
-- `before` 0: it was made; `after` 0: it went without a record. `seq` orders the moves of one run: they hold its row.
-- `holder`: who has it, or had it until then; `freed`: the store took it from them, for they are gone; nobody reported.
CREATE SCHEMA chaos;
CREATE TABLE chaos.journal (
  seq    bigint GENERATED ALWAYS AS IDENTITY,
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  due    timestamptz NOT NULL,
  ended  timestamptz,
  token  bigint NOT NULL,
  holder bigint NOT NULL,
  freed  boolean NOT NULL DEFAULT false,
  run_id uuid NOT NULL,
  job_id uuid NOT NULL,
  before smallint NOT NULL,
  after  smallint NOT NULL,
  attempt smallint NOT NULL,
  reason text,
  nominal timestamptz
);

CREATE FUNCTION chaos.made() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.journal (due, token, holder, run_id, job_id, before, after, attempt, nominal)
  SELECT due, token, holder, run_id, job_id, 0, state, attempt, coalesce(nominal, due) FROM new_rows;
  RETURN NULL;
END
$$;
CREATE TRIGGER chaos_made AFTER INSERT ON tickwise.runs REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION chaos.made();

CREATE FUNCTION chaos.moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Who held it: of what becomes free, the one before.
  INSERT INTO chaos.journal (due, token, holder, freed, run_id, job_id, before, after, attempt, nominal)
  SELECT n.due, CASE WHEN n.token = 0 THEN o.token ELSE n.token END, CASE WHEN n.holder = 0 THEN o.holder ELSE n.holder END,
         o.holder <> 0 AND n.holder = 0 AND e.gone IS NOT NULL, n.run_id, n.job_id, o.state, n.state, n.attempt,
         coalesce(n.nominal, n.due)
  FROM new_rows n JOIN old_rows o USING (run_id) LEFT JOIN tickwise.executors e ON e.executor = o.holder
  WHERE n.state <> o.state OR n.holder <> o.holder;
  RETURN NULL;
END
$$;
CREATE TRIGGER chaos_moved AFTER UPDATE ON tickwise.runs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION chaos.moved();

CREATE FUNCTION chaos.gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.journal (due, token, holder, run_id, job_id, before, after, attempt, nominal)
  SELECT due, token, holder, run_id, job_id, state, 0, attempt, coalesce(nominal, due) FROM old_rows;
  RETURN NULL;
END
$$;
CREATE TRIGGER chaos_gone AFTER DELETE ON tickwise.runs REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION chaos.gone();

CREATE FUNCTION chaos.ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.journal (due, ended, token, holder, freed, run_id, job_id, before, after, attempt, reason, nominal)
  SELECT due, ended, token, executor, coalesce(reason IN ('poison', 'executor_lost', 'unknown_outcome'), false), run_id, job_id,
         before, state, attempt, reason, coalesce(nominal, due)
  FROM new_rows;
  RETURN NULL;
END
$$;
CREATE TRIGGER chaos_ended AFTER INSERT ON tickwise.history REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION chaos.ended();
