-- Lanes that nothing uses are freed, so that a namespace that has used up its share gets room again.

-- At most some thousand rows: all that is done to the table here takes milliseconds.
SELECT tickwise.lock_briefly(ARRAY['lanes']);

ALTER TABLE tickwise.lanes
  ADD COLUMN idle timestamptz;  -- since when no job and no run is known to use it; NULL: one does, or nobody has looked

-- Freed lanes, for some days: a program that slept, or one of the release before, may still write a run with such a number.
CREATE TABLE tickwise.lanes_freed (
  freed     timestamptz NOT NULL,
  lane      int PRIMARY KEY,
  priority  smallint NOT NULL,
  namespace text NOT NULL,
  queue     text NOT NULL,
  requires  text[] NOT NULL
);
