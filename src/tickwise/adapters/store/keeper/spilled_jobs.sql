-- name: resting_table
-- The jobs at rest in the file.
--   listed  the place in lists
--   place   the number of its namespace and lane
CREATE TABLE resting (
    job BLOB PRIMARY KEY,
    place INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    listed BLOB NOT NULL,
    created REAL NOT NULL,
    lasting INTEGER NOT NULL,
    key BLOB,
    image BLOB NOT NULL
) WITHOUT ROWID

-- name: resting_index_listed
-- Jobs of a namespace in the order of lists.
CREATE INDEX resting_listed ON resting (namespace, listed)

-- name: resting_index_created
-- Jobs by age, for retention.
CREATE INDEX resting_created ON resting (created)

-- name: resting_index_lasting
-- Jobs that last.
CREATE INDEX resting_lasting ON resting (job) WHERE lasting = 1

-- name: resting_index_keys
-- Jobs by namespace and key.
CREATE UNIQUE INDEX resting_key ON resting (namespace, key) WHERE key IS NOT NULL

-- name: resting_add
-- A job: id, place, namespace, place in lists, time at which it was made, whether it lasts, key, image.
INSERT INTO resting VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: resting_keyed
-- The image of the job of the namespace ? that has the key ?.
SELECT image FROM resting WHERE namespace = ? AND key = ?

-- name: resting_image
-- The image of the job ?.
SELECT image FROM resting WHERE job = ?

-- name: resting_known
-- A row if the job ? is there.
SELECT 1 FROM resting WHERE job = ?

-- name: resting_drop
-- The job ? goes: its place.
DELETE FROM resting WHERE job = ? RETURNING place

-- name: resting_ids
-- Ids above ?, ? of them.
SELECT job FROM resting WHERE job > ? ORDER BY job LIMIT ?

-- name: resting_images
-- Jobs with an id above ?, ? of them.
SELECT job, image FROM resting WHERE job > ? ORDER BY job LIMIT ?

-- name: resting_listed
-- The jobs of the namespace ? below the place ? of lists, ? of them.
SELECT listed, job, image FROM resting WHERE namespace = ? AND listed < ? ORDER BY listed DESC LIMIT ?

-- name: resting_before
-- The jobs that were made before ?.
SELECT job FROM resting WHERE created < ?

-- name: resting_lasting
-- The jobs that last.
SELECT job FROM resting WHERE lasting = 1

-- name: resting_of
-- Jobs of the namespace ?, ? of them.
SELECT job FROM resting WHERE namespace = ? LIMIT ?
