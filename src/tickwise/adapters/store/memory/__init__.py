"""A whole store in one process's memory: what the simulation runs on, and the plainest reading of the port.

    records     what is kept: jobs, timers, runs, ended runs, executors
    rows        how it is told
    slots       who runs under a concurrency key, and who waits for a slot
    state       the few moves that everything else is made of: make a run, hold it, free it, end it, forget it
    overlap · limits · losses
                the rules of `domain.rules`, carried out
    definitions · timers · dispatch · executors · history · rules · letters · operations · flow · health
                the duties of the port

Invariants: no method awaits between reading and writing, so each is atomic on one event loop; every change of a run's
state goes through `lifecycle.move`; the same calls at the same times give the same answers.
"""

from tickwise.adapters.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
