-- Drop notes and counts of requests whose time is over, a page at a time, passing over what somebody changes just now.
WITH over AS (
  SELECT kind, name FROM tickwise.board WHERE until < (SELECT tickwise.now()) LIMIT 1000 FOR UPDATE SKIP LOCKED
), quiet AS (
  SELECT who FROM tickwise.paces WHERE until < (SELECT tickwise.now()) LIMIT 1000 FOR UPDATE SKIP LOCKED
), noted AS (
  DELETE FROM tickwise.board USING over WHERE board.kind = over.kind AND board.name = over.name
)
DELETE FROM tickwise.paces USING quiet WHERE paces.who = quiet.who
