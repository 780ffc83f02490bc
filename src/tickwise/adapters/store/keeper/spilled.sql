-- name: spilled_table
-- The ended runs in the file. A run is in the order of its id, which is that of time.
--   place  of those that FAILED, or of the others: a block is a range of places
CREATE TABLE ended (
    run BLOB PRIMARY KEY,
    job BLOB NOT NULL,
    namespace TEXT NOT NULL,
    failed INTEGER NOT NULL,
    due REAL NOT NULL,
    at REAL NOT NULL,
    image BLOB NOT NULL,
    place INTEGER NOT NULL
) WITHOUT ROWID

-- name: spilled_index_of_jobs
-- Runs of a job, the newest first.
CREATE INDEX ended_of_job ON ended (job, run, failed, due)

-- name: spilled_index_over
-- Runs by their end, for retention.
CREATE INDEX ended_over ON ended (failed, at)

-- name: spilled_index_failed
-- Failed runs of a namespace, the newest first.
CREATE INDEX ended_failed ON ended (namespace, run) WHERE failed = 1

-- name: spilled_add
-- A run: id, job, namespace, whether it FAILED, due time, end, image, place.
INSERT INTO ended VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: spilled_place
-- Of the run ?: its namespace, whether it FAILED, and its place.
SELECT namespace, failed, place FROM ended WHERE run = ?

-- name: spilled_replace
-- The place ? for the run ?.
UPDATE ended SET place = ? WHERE run = ?

-- name: spilled_places
-- Runs with an id from ? on, ? of them: whether it FAILED, its place and its size.
SELECT run, failed, place, LENGTH(image) FROM ended WHERE run >= ? ORDER BY run LIMIT ?

-- name: spilled_row
-- The run ? as blocks have it.
SELECT run, job, namespace, failed, due, at, image FROM ended WHERE run = ?

-- name: spilled_drop
-- The run ? goes.
DELETE FROM ended WHERE run = ?

-- name: spilled_known
-- A row if the run ? is there.
SELECT 1 FROM ended WHERE run = ?

-- name: spilled_image
-- The image of the run ?.
SELECT image FROM ended WHERE run = ?

-- name: spilled_last
-- The newest run of the job ?, and whether it FAILED.
SELECT run, failed FROM ended WHERE job = ? ORDER BY run DESC LIMIT 1

-- name: spilled_over
-- Runs that FAILED (? is 1) or did not (0) and ended before ?.
SELECT run FROM ended WHERE failed = ? AND at < ?

-- name: spilled_newest
-- The newest runs of all jobs, within bounds.
SELECT run, image FROM ended
WHERE run < :before AND run > :after AND due >= :due_after AND due < :due_before AND failed >= :failed
    AND (:namespace IS NULL OR namespace = :namespace)
ORDER BY run DESC LIMIT :number

-- name: spilled_newest_of_job
-- The newest runs of a job, within bounds.
SELECT run, image FROM ended
WHERE job = :job AND run < :before AND run > :after AND due >= :due_after AND due < :due_before AND failed >= :failed
    AND (:namespace IS NULL OR namespace = :namespace)
ORDER BY run DESC LIMIT :number

-- name: spilled_newest_failed
-- The newest runs of a namespace that FAILED, within bounds.
SELECT run, image FROM ended
WHERE namespace = :namespace AND failed = 1 AND run < :before AND run > :after AND due >= :due_after AND due < :due_before
ORDER BY run DESC LIMIT :number

-- name: spilled_ids
-- Ids from ? on, ? of them.
SELECT run FROM ended WHERE run >= ? ORDER BY run LIMIT ?

-- name: spilled_images
-- Runs with an id from ? on, ? of them.
SELECT run, image FROM ended WHERE run >= ? ORDER BY run LIMIT ?
