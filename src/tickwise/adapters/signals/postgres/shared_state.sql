-- name: board_tell
-- Write notes that all last the same time; each replaces one of the same kind and name. Always in one order, so that two writers of the
-- same notes do not deadlock.
INSERT INTO tickwise.board AS note (until, kind, name, facts)
SELECT (SELECT tickwise.now()) + $4::float8 * interval '1 second', kind, name, facts
FROM unnest($1::text[], $2::text[], $3::text[]) AS told (kind, name, facts)
ORDER BY kind, name
ON CONFLICT (kind, name) DO UPDATE SET until = excluded.until, facts = excluded.facts

-- name: board_look
-- Read the notes of a kind: those of these names, or (NULL) all of them up to a number.
SELECT name, facts FROM tickwise.board
WHERE kind = $1 AND ($2::text[] IS NULL OR name = ANY ($2)) AND until > (SELECT tickwise.now())
LIMIT $3

-- name: board_drop
-- Remove these notes of a kind.
DELETE FROM tickwise.board WHERE kind = $1 AND name = ANY ($2::text[])

-- name: board_trim
-- Delete notes and counts of requests whose time is over, a page at a time, without the rows that another transaction has locked.
WITH over AS (
  SELECT kind, name FROM tickwise.board WHERE until < (SELECT tickwise.now()) LIMIT 1000 FOR UPDATE SKIP LOCKED
), quiet AS (
  SELECT who FROM tickwise.paces WHERE until < (SELECT tickwise.now()) LIMIT 1000 FOR UPDATE SKIP LOCKED
), noted AS (
  DELETE FROM tickwise.board USING over WHERE board.kind = over.kind AND board.name = over.name
)
DELETE FROM tickwise.paces USING quiet WHERE paces.who = quiet.who
