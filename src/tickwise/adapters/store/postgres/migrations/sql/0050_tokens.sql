-- Tokens that name their database, where an installation has several (`domain/fencing.py`).

-- The epoch, after a new one has begun if it must. $1 the highest fencing token that the caller has seen, $2 why a new one is
-- to begin even if this server says nothing of it. A new epoch lifts everything that is handed out once: fencing tokens (the epoch is
-- what lies above their 40 low bits), numbers of executors and of lanes, the version of the rules. The usual call writes nothing.
CREATE OR REPLACE FUNCTION tickwise.epoch(seen_token bigint, told text) RETURNS bigint
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
    -- The last six bits stay: where there are several databases, they say which one draws these tokens.
    PERFORM setval('tickwise.fence', (fresh << 40) + (last & 63));
    PERFORM setval('tickwise.executors_executor_seq', (SELECT last_value + 1000000 FROM tickwise.executors_executor_seq));
    PERFORM setval('tickwise.lanes_lane_seq', (SELECT least(last_value + 100000, 2147000000) FROM tickwise.lanes_lane_seq));
    UPDATE tickwise.rules_version SET version = greatest(version + 1, fresh << 40);
  END IF;
  INSERT INTO tickwise.epochs (began, epoch, system_id, timeline, database_id, fence_id, token, seen, cause)
  VALUES (tickwise.now(), fresh, here.system_id, here.timeline, here.database_id, here.fence_id, last, seen_token, why);
  RETURN fresh;
END
$$;

-- Draw tokens of a shard from now on: their last six bits are `bits`, and each is 64 above the one before. Programs that are connected go
-- on; a token that was drawn before keeps its bits. Twice is once.
CREATE FUNCTION tickwise.tokens_of_shard(bits int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last bigint;
BEGIN
  -- No other session draws one until this transaction ends.
  ALTER SEQUENCE tickwise.fence INCREMENT BY 64;
  SELECT last_value INTO last FROM tickwise.fence;
  IF last & 63 <> bits THEN
    PERFORM setval('tickwise.fence', (last >> 6 << 6) + 64 + bits);
  END IF;
END
$$;
REVOKE ALL ON FUNCTION tickwise.tokens_of_shard(int) FROM PUBLIC;
