-- Indexes of ours whose making was broken off: they are made anew.
DO $$
DECLARE
  broken regclass;
BEGIN
  FOR broken IN
    SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relname IN ('runs_line', 'runs_waits') AND NOT i.indisvalid
  LOOP
    EXECUTE format('DROP INDEX %s', broken);
  END LOOP;
END
$$
