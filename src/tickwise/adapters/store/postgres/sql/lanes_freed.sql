-- What these numbers stood for before they were freed. $1 lanes.
SELECT lane, namespace, queue, priority, requires, true AS idle FROM tickwise.lanes_freed WHERE lane = ANY($1::int[])
