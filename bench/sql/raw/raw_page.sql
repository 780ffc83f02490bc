-- The newest runs on record, as they are stored: what a page of them costs at least. $1 how many.
SELECT * FROM tickwise.history ORDER BY run_id DESC LIMIT $1
