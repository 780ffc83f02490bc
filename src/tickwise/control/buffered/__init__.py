"""Buffered requests: answered once the broker has them, applied to the store later.

    ingest ──► broker ──► a recorder ──► application ──► store
       └── pending: what this process accepted, for readers (`pending_reads`)

- `circuit_breaker` bounds the wait for a store that is away, and remembers what it said.

Invariant: a request that was accepted is applied, or ends as a failed operation.
"""
