-- Ends are noted by a trigger, so that no writer forgets them, of an earlier release neither: 0.1 us a run. One for new runs costs six
-- times that, and one of UPDATE keeps every row of every claim twice: these are noted by the statements that make them.
CREATE FUNCTION tickwise.feed_ended() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF tickwise.feed_watched() THEN
    INSERT INTO tickwise.feed (at, state, namespace, runs, jobs, attempts)
    SELECT tickwise.now(), e.state, e.namespace, array_agg(e.run_id), array_agg(e.job_id), array_agg(e.attempt)
    FROM ended e GROUP BY e.state, e.namespace;
  END IF;
  RETURN NULL;
END
$$;

-- At the end, for writers wait from here on. And for what later steps of the same upgrade lock: a statement that has `attempts` or reads
-- `queues_held` may go on to `history`, and would wait for the upgrade while that waits for it.
SELECT tickwise.lock_briefly(ARRAY['queues_held', 'attempts', 'history']);
CREATE TRIGGER history_feed AFTER INSERT ON tickwise.history REFERENCING NEW TABLE AS ended
  FOR EACH STATEMENT EXECUTE FUNCTION tickwise.feed_ended();
