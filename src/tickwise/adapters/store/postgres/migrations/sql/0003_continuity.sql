-- Whether this is still the store that the roles have written to: a promoted standby, a restored backup and a server whose disk
-- was set back all lack what was acknowledged last. Each is noticed by a role that connects, and begins a new epoch.

-- Locked at first and for milliseconds: nothing below reads a table that grows.
SELECT tickwise.lock_briefly(ARRAY['executors']);

-- One row per epoch. The identity is that of the server on which the epoch began; NULL: the server does not tell.
CREATE TABLE tickwise.epochs (
  began       timestamptz NOT NULL,
  epoch       bigint PRIMARY KEY,
  system_id   bigint,                    -- made by initdb; a standby has its primary's
  timeline    bigint,                    -- one higher with each promotion and each recovery to a point in time
  database_id bigint NOT NULL,           -- another one after a restore into a new database,
  fence_id    bigint NOT NULL,           -- and this after a restore into the same one
  token       bigint NOT NULL,           -- the last fencing token before,
  seen        bigint NOT NULL,           -- and the highest that the role which noticed had seen: a higher one was lost
  differed    bigint NOT NULL DEFAULT 0, -- runs of which executors knew better than the store, since
  cause       text NOT NULL CHECK (cause IN ('first', 'promoted', 'restored', 'went_back', 'told'))
);

-- What tells this server and database from others. Some hosted servers do not tell all of it, whatever the role.
CREATE FUNCTION tickwise.here(OUT system_id bigint, OUT timeline bigint, OUT database_id bigint, OUT fence_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  BEGIN
    SELECT s.system_identifier INTO system_id FROM pg_control_system() s;
  EXCEPTION WHEN OTHERS THEN
    system_id := NULL;
  END;
  BEGIN
    -- Not of the last checkpoint, which a promoted server writes long after it takes writes.
    timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
  EXCEPTION WHEN OTHERS THEN
    timeline := NULL;
  END;
  SELECT d.oid::bigint INTO database_id FROM pg_database d WHERE d.datname = current_database();
  fence_id := 'tickwise.fence'::regclass::oid::bigint;
END
$$;

-- The epoch, after a new one has begun if it must. $1 the highest fencing token that the caller has seen, $2 why a new one is
-- to begin whatever this server says. A new epoch lifts everything that is handed out once: fencing tokens (the epoch is
-- what lies above their 40 low bits), numbers of executors and of lanes, the version of the rules. The usual call writes nothing.
CREATE FUNCTION tickwise.epoch(seen_token bigint, told text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here record;
  was tickwise.epochs;
  last bigint;
  why text;
  fresh bigint;
BEGIN
  SELECT * INTO here FROM tickwise.here();
  FOR look IN 1..2 LOOP
    SELECT * INTO was FROM tickwise.epochs ORDER BY epoch DESC LIMIT 1;
    SELECT last_value INTO last FROM tickwise.fence;
    why := CASE WHEN was.epoch IS NULL THEN 'first'
                WHEN told IS NOT NULL THEN told
                WHEN was.system_id <> here.system_id OR was.database_id <> here.database_id OR was.fence_id <> here.fence_id THEN 'restored'
                WHEN was.timeline <> here.timeline THEN 'promoted'
                WHEN seen_token > last OR was.epoch > last >> 40 THEN 'went_back' END;
    IF why IS NULL THEN
      RETURN was.epoch;
    END IF;
    IF look = 1 THEN
      -- Of many roles that come back at once the first begins the epoch; the others then see it.
      LOCK TABLE tickwise.epochs IN SHARE ROW EXCLUSIVE MODE;
    END IF;
  END LOOP;
  fresh := last >> 40;
  IF why <> 'first' THEN
    -- A lost epoch is not begun twice: its timeline was lower, or somebody has seen a token of it.
    fresh := greatest(was.epoch + 1, fresh + 1, (seen_token >> 40) + 1, here.timeline - 1);
    PERFORM setval('tickwise.fence', fresh << 40);
    PERFORM setval('tickwise.executors_executor_seq', (SELECT last_value + 1000000 FROM tickwise.executors_executor_seq));
    PERFORM setval('tickwise.lanes_lane_seq', (SELECT least(last_value + 100000, 2147000000) FROM tickwise.lanes_lane_seq));
    UPDATE tickwise.rules_version SET version = greatest(version + 1, fresh << 40);
  END IF;
  INSERT INTO tickwise.epochs (began, epoch, system_id, timeline, database_id, fence_id, token, seen, cause)
  VALUES (tickwise.now(), fresh, here.system_id, here.timeline, here.database_id, here.fence_id, last, seen_token, why);
  RETURN fresh;
END
$$;
SELECT tickwise.epoch(0, NULL);

-- Since when the server is up, or took over: leases that ran out before have one more period from then.
CREATE OR REPLACE FUNCTION tickwise.started() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT greatest(
    pg_postmaster_start_time()
      + coalesce(nullif(current_setting('tickwise.shift_start_seconds', true), ''), '0')::float8 * interval '1 second',
    (SELECT max(began) FROM tickwise.epochs WHERE cause <> 'first' AND began <= tickwise.now()))
$$;

-- Of how many runs an executor knows better than the store, as it says with its heartbeat, and since when there are any.
ALTER TABLE tickwise.executors ADD COLUMN differs int NOT NULL DEFAULT 0, ADD COLUMN differing timestamptz;
