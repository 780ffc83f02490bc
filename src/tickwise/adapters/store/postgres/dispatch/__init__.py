"""The hot path: timers, claims, starts, ends, leases and executors."""
