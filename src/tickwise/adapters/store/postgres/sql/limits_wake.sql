-- Wake who waits for a slot of these keys (`0003_wakes.sql`). $1 namespaces, $2 keys, $3 whether it is the sweep that asks, $4 whether nothing
-- else is written in this transaction.
SELECT * FROM tickwise.limits_wake($1, $2, $3, $4)
