-- The end of namespaces: removed in steps, and the names of those that are gone.

SELECT tickwise.lock_briefly(ARRAY['namespaces']);

-- A namespace that is being removed keeps the state `closing`, which programs of the release before know.
ALTER TABLE tickwise.namespaces
  ADD COLUMN removing timestamptz,      -- since when it is being removed; NULL: it is not
  ADD COLUMN free     timestamptz;      -- of its removal: from then on another scheduler may take it

-- Namespaces that are gone, for some weeks: what still comes for one of them is refused. A namespace of the name may be there again.
CREATE TABLE tickwise.namespaces_removed (
  removed timestamptz NOT NULL,
  name    text PRIMARY KEY
);

-- Those of these namespaces that take nothing new; with `or_closing` also those that are closing and not being removed. The others
-- stay open until this transaction ends: who closes one waits for it. A name that never was a namespace counts as open.
CREATE FUNCTION tickwise.namespaces_closed(names text[], or_closing boolean) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM tickwise.namespaces WHERE name = ANY(names) ORDER BY name FOR SHARE;
  -- A statement of its own, so that it sees what was committed while the one above waited.
  RETURN ARRAY(
    SELECT name FROM tickwise.namespaces
    WHERE name = ANY(names) AND (removing IS NOT NULL OR or_closing AND state <> 'active')
    UNION ALL
    SELECT name FROM tickwise.namespaces_removed r
    WHERE name = ANY(names) AND NOT EXISTS (SELECT FROM tickwise.namespaces n WHERE n.name = r.name));
END
$$;

-- Fail, with the code TW001, unless all of these namespaces take new things.
CREATE FUNCTION tickwise.namespaces_open(names text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF tickwise.namespaces_closed(names, true) <> '{}' THEN
    RAISE EXCEPTION 'a namespace takes nothing new' USING ERRCODE = 'TW001';
  END IF;
  RETURN true;
END
$$;
