"""Judges a history: was every promise kept, by what clients, the journal, the tasks and the records say?

    operations ─┐
    journal ────┤
    executions ─┼──► judge ──► Verdict(valid | invalid | unknown, findings, counts)
    records ────┤
    targets, faults ─┘

What each input is and how it is filled stands in `history_events`; what can be found, in `history_findings`.
Pure: the same history always comes to the same verdict. 100,000 runs take seconds.

Invariant: what was not watched is not judged, and is named in `Verdict.unseen`; what nothing happened in is UNKNOWN.
"""

from __future__ import annotations

from tickwise.domain.history_events import (
    Answer,
    Asked,
    Change,
    Edge,
    Execution,
    Fault,
    History,
    LeaseEnd,
    Operation,
    Run,
    Target,
)
from tickwise.domain.history_findings import Finding, Kind, Status, Verdict

__all__ = [
    "Answer",
    "Asked",
    "Change",
    "Edge",
    "Execution",
    "Fault",
    "Finding",
    "History",
    "Kind",
    "LeaseEnd",
    "Operation",
    "Run",
    "Status",
    "Target",
    "Verdict",
]
