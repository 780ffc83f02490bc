-- The feed: every change of a run's state, for readers that follow. One row for each state and namespace of a statement, its runs in
-- arrays, so that a batch of 500 runs is one row. Nothing is noted while nobody watches.
-- Drawn once the rows are written, and so locked: of two changes of one run the later one has the greater number. CACHE would break that.
CREATE SEQUENCE tickwise.feed_batches;
CREATE TABLE tickwise.feed (
  transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
  batch       bigint NOT NULL DEFAULT nextval('tickwise.feed_batches'),
  at          timestamptz NOT NULL,
  state       smallint NOT NULL,
  namespace   text NOT NULL,
  runs        uuid[] NOT NULL,
  jobs        uuid[] NOT NULL,
  attempts    smallint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_insert_threshold = -1,
        autovacuum_analyze_threshold = 2000000000, toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 100000,
        toast.autovacuum_vacuum_insert_threshold = -1);
-- Ids are noise: to try to compress them takes longer than all the rest.
ALTER TABLE tickwise.feed ALTER runs SET STORAGE EXTERNAL, ALTER jobs SET STORAGE EXTERNAL;
CREATE INDEX feed_transaction ON tickwise.feed (transaction, batch);

-- Whether changes are noted, and from where on they are complete. No row: nobody has ever watched.
CREATE TABLE tickwise.feed_watch (
  until  timestamptz NOT NULL,
  floor  pg_snapshot,                   -- what was visible then may be missing; NULL: noting has just begun
  single boolean PRIMARY KEY DEFAULT true CHECK (single)
) WITH (fillfactor = 20);
-- What was visible at a time: all of it is dropped when that is long enough ago. By this and not by the time of a change, for a
-- transaction that commits late is read late.
CREATE TABLE tickwise.feed_marks (
  at      timestamptz NOT NULL,
  visible pg_snapshot NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Whether somebody watches. Asked by each statement that writes a run. The transaction has its number before the look: either the look sees
-- the watch, or the reader that begins to watch waits for this transaction (`feed_under_way`).
CREATE FUNCTION tickwise.feed_watched() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_current_xact_id();
  RETURN (SELECT w.until > tickwise.now() FROM tickwise.feed_watch w);
END
$$;
-- Its owner writes: no right has to be given anew.
CREATE FUNCTION tickwise.feed_note(state int, namespace text, runs uuid[], jobs uuid[], attempts smallint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tickwise.feed (at, state, namespace, runs, jobs, attempts) VALUES (tickwise.now(), state, namespace, runs, jobs, attempts);
END
$$;
