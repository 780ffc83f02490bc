"""Runs: look them up, cancel and retry them, read their logs; settle dead letters; hold queues.

- `service`: runs. `letters`: runs that failed for good. `queues`: what waits in each queue, and holds.
- `settlements` settles dead letters and `cancels` cancels one run, for a request and for a bulk operation alike.
- `logs`: reading a log that may still grow.

Invariant: what ends or repeats a run goes through one statement of the store, so two callers at once do it once.
"""
