-- Every lane, and whether it may be freed soon; there are few.
SELECT lane, namespace, queue, priority, requires, idle IS NOT NULL AS idle FROM tickwise.lanes
