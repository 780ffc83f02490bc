-- Every lane; there are few.
SELECT lane, queue, priority, requires FROM tickwise.lanes
