-- name: lanes_freed
-- The lanes that had these numbers before they were freed. $1 lanes.
SELECT lane, namespace, queue, priority, requires, true AS idle FROM tickwise.lanes_freed WHERE lane = ANY($1::int[])

-- name: lanes
-- Every lane, and whether it may be freed soon; there are few.
SELECT lane, namespace, queue, priority, requires, idle IS NOT NULL AS idle FROM tickwise.lanes
