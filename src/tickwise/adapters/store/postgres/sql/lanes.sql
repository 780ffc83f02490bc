-- Every lane; there are few.
SELECT lane, namespace, queue, priority, requires FROM tickwise.lanes
