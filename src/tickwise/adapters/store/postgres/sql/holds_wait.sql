-- Wait until no claim is under way that may not have seen that a queue stands still: each holds its executor's row shared.
SELECT FROM tickwise.executors WHERE gone IS NULL ORDER BY executor FOR NO KEY UPDATE
