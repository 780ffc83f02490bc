-- Take down these notes of a kind.
DELETE FROM tickwise.board WHERE kind = $1 AND name = ANY ($2::text[])
