-- Failures grouped by cause. An attempt that failed leaves a narrow row with its end, in the same transaction; a scheduler reads what it
-- said, and folds it into its group.

CREATE TABLE tickwise.failures_new (
  token   bigint NOT NULL,
  run_id  uuid NOT NULL,
  last    boolean NOT NULL,              -- it ended its run: what it said is in `history`, else in `attempts`
  PRIMARY KEY (run_id, token)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1);

CREATE TABLE tickwise.error_groups (
  first_seen     timestamptz NOT NULL,
  last_seen      timestamptz NOT NULL,
  decided        timestamptz,
  ignored_until  timestamptz,
  failures       bigint NOT NULL,
  ignored_count  bigint,                 -- open again at so many failures
  jobs           int NOT NULL DEFAULT 0, -- in `error_jobs`
  sample_attempt smallint NOT NULL,
  sample_run     uuid NOT NULL,
  group_id       uuid PRIMARY KEY,       -- computed from the cause and the namespace
  namespace      text NOT NULL,
  reason         text NOT NULL,
  kind           text NOT NULL,
  message        text NOT NULL,
  task_kind      text NOT NULL,
  task           text NOT NULL,
  sample_error   text,
  decision       text CHECK (decision IN ('resolve', 'ignore')),
  decided_by     text,
  note           text,
  CHECK ((decision IS NULL) = (decided IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX error_groups_seen ON tickwise.error_groups (namespace, last_seen, group_id);

CREATE TABLE tickwise.error_jobs (
  last_seen timestamptz NOT NULL,
  failures  bigint NOT NULL,
  group_id  uuid NOT NULL REFERENCES tickwise.error_groups ON DELETE CASCADE,
  job_id    uuid NOT NULL,
  PRIMARY KEY (group_id, job_id)
) WITH (fillfactor = 80);

CREATE TABLE tickwise.error_hours (
  hour     timestamptz NOT NULL,
  failures bigint NOT NULL,
  group_id uuid NOT NULL REFERENCES tickwise.error_groups ON DELETE CASCADE,
  PRIMARY KEY (group_id, hour)
) WITH (fillfactor = 80);
CREATE INDEX error_hours_hour ON tickwise.error_hours (hour);

-- The dead letters of a group: they stay with their runs, also when the group has gone for another one.
CREATE TABLE tickwise.error_letters (
  run_id   uuid PRIMARY KEY,
  group_id uuid NOT NULL
);
CREATE INDEX error_letters_group ON tickwise.error_letters (group_id, run_id);

-- The status follows from the counts and the decision; `domain/error_groups.py` has the rule.
CREATE VIEW tickwise.error_groups_shown AS
SELECT group_id, namespace, reason, kind, message, task_kind, task, failures, jobs, date_part('epoch', first_seen) AS first_seen,
       date_part('epoch', last_seen) AS last_seen, sample_run, sample_attempt, sample_error, decision,
       date_part('epoch', decided) AS decided_at, decided_by, note, date_part('epoch', ignored_until) AS ignored_until, ignored_count,
       CASE decision
         WHEN 'resolve' THEN CASE WHEN last_seen > decided THEN 'open' ELSE 'resolved' END
         WHEN 'ignore' THEN CASE WHEN ignored_until <= (SELECT tickwise.now()) OR failures >= ignored_count THEN 'open' ELSE 'ignored' END
         ELSE 'open' END AS status,
       last_seen AS seen, first_seen AS begun
FROM tickwise.error_groups;

-- The owner writes: a role that ends attempts needs no right on the table, whichever release gave it its rights.
CREATE FUNCTION tickwise.failures_note(runs uuid[], tokens bigint[], last boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO tickwise.failures_new (token, run_id, last)
  SELECT n.token, n.run_id, $3 FROM unnest($1, $2) AS n(run_id, token)
  ON CONFLICT DO NOTHING
$$;

-- As in 0001; where one of the runs failed, also what is to be grouped. The states come from the rows that were written anyway, so a
-- statement without a failure reads nothing for it.
CREATE OR REPLACE FUNCTION tickwise.tally() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  failed boolean;
BEGIN
  WITH counted AS (
    INSERT INTO tickwise.tallies_new (hour, runs, state, namespace)
    SELECT date_bin('1 hour', tickwise.now(), to_timestamp(0)), count(*), state, namespace FROM came GROUP BY state, namespace
    RETURNING state
  )
  SELECT bool_or(state = 6) INTO failed FROM counted;
  IF failed THEN
    PERFORM tickwise.failures_note(array_agg(run_id), array_agg(token), true) FROM came WHERE state = 6;
  END IF;
  RETURN NULL;
END
$$;

-- An attempt that is tried again (4 RETRYING), or that was lost with its executor. Those that were given back in order did not fail.
CREATE FUNCTION tickwise.attempts_failed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tickwise.failures_note(array_agg(run_id), array_agg(token), false) FROM came
  WHERE state = 4 OR state = 1 AND reason = 'lease_lost' HAVING count(*) > 0;
  RETURN NULL;
END
$$;
CREATE TRIGGER attempts_failed AFTER INSERT ON tickwise.attempts REFERENCING NEW TABLE AS came
  FOR EACH STATEMENT EXECUTE FUNCTION tickwise.attempts_failed();
