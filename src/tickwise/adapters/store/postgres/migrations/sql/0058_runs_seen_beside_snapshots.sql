-- What lists of queues and figures see of live runs while somebody's snapshot keeps dead rows: a dump, a report, a stalled slot.

-- Active runs, each with how many it stands for. A table of up to so many pages is read as a whole. Of a larger one, so many pages are
-- read, and what they hold is grown to the server's own count, or while that has none, to the table's size. If they hold few, up to 1,000
-- runs are read by their index instead: runs that went a moment ago leave the table large, and a sample of few says nothing. Where it has
-- many, the index is not read: it begins with the entries of runs that ended since the last vacuum. Nor is it where the server counts many
-- dead rows: beside a snapshot each of them would be read, by each look, for as long as the snapshot lasts.
CREATE OR REPLACE FUNCTION tickwise.runs_seen(pages int, OUT lane int, OUT state smallint, OUT holder bigint, OUT stands_for float8)
RETURNS SETOF record LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  size float8 := pg_relation_size('tickwise.runs') / current_setting('block_size')::float8;
  live float8 := pg_stat_get_live_tuples('tickwise.runs'::regclass);
  lanes int[];
  states smallint[];
  holders bigint[];
  seen int;
BEGIN
  IF size <= pages THEN
    RETURN QUERY SELECT lane, state, holder, 1.0::float8 FROM tickwise.runs;
    RETURN;
  END IF;
  SELECT array_agg(lane), array_agg(state), array_agg(holder), count(*) INTO lanes, states, holders, seen
  FROM tickwise.runs TABLESAMPLE SYSTEM (100 * pages / size) REPEATABLE (0);
  IF seen < 100 AND NOT tickwise.many_dead_runs() THEN
    RETURN QUERY SELECT lane, state, holder, 1.0::float8
      FROM (SELECT lane, state, holder, count(*) OVER () AS found FROM (SELECT lane, state, holder FROM tickwise.runs ORDER BY run_id LIMIT 1001) f) f
      WHERE found <= 1000;
    IF FOUND OR NOT EXISTS (SELECT FROM tickwise.runs) THEN
      RETURN;
    END IF;
  END IF;
  RETURN QUERY SELECT u.lane, u.state, u.holder, CASE WHEN live > seen AND seen > 0 THEN live / seen ELSE size / pages END
    FROM unnest(lanes, states, holders) AS u(lane, state, holder);
END
$$;

-- Whether the server counts more dead rows of runs than a vacuum waits for (0041), twice: a vacuum that keeps up never leaves so many.
CREATE FUNCTION tickwise.many_dead_runs() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT pg_stat_get_dead_tuples('tickwise.runs'::regclass) > 100000
$$;
