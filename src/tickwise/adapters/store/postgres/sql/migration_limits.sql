-- Before each file of a migration, in its transaction: how long a statement waits for a lock. `lock_briefly` leaves a shorter time behind.
SET LOCAL lock_timeout = '30s'
