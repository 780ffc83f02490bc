"""The hot path: timers, claims, starts, ends, leases, limits and wake-ups."""
