"""A whole store in one process's memory: what the simulation runs on, and the plainest reading of the port.

    records     what is kept: jobs, timers, runs, ended runs, executors
    state       the few moves that everything else is made of: make a run, hold it, free it, end it, forget it
    overlap     what becomes of a run that would start while another one goes on
    definitions · timers · dispatch · executors · history · rules       the duties of the port

Invariants: no method awaits between reading and writing, so each is atomic on one event loop; every change of a run's
state goes through `lifecycle.move`; the same calls at the same times give the same answers.
"""

from tickwise.adapters.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
