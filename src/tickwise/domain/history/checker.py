"""Judges a history: checks every promise against the records of clients, the journal, the tasks and the store.

    operations ─┐
    journal ────┤
    executions ─┼──► judge ──► Verdict(valid | invalid | unknown, findings, counts)
    records ────┤
    targets, faults ─┘

`events` describes the inputs and how to fill them; `findings` describes the possible faults.
Pure: the same history always comes to the same verdict. 100,000 runs take seconds.

Invariant: the checker judges only what was watched; `HistoryVerdict.unseen` names the rest. A history in which nothing
happened is UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from tickwise.domain.history.events import (
    ClientAnswer,
    Edge,
    Execution,
    Fault,
    History,
    LeaseEnd,
    Operation,
    RequestKind,
    Run,
    RunChange,
    Target,
)
from tickwise.domain.history.executions import SeenExecutions, allowed, crowded, executed, unbacked
from tickwise.domain.history.findings import FindingKind, HistoryFinding, HistoryVerdict, Status
from tickwise.domain.history.journal import Life, lives
from tickwise.domain.history.occurrences import followed, met
from tickwise.domain.history.requests import ClientRequests, on_record
from tickwise.domain.lifecycle import FINAL

__all__ = [
    "ClientAnswer",
    "Edge",
    "Execution",
    "Fault",
    "FindingKind",
    "History",
    "HistoryFinding",
    "HistoryVerdict",
    "LeaseEnd",
    "Operation",
    "RequestKind",
    "Run",
    "RunChange",
    "Status",
    "Target",
    "judge",
]


def judge(history: History) -> HistoryVerdict:
    """Hold all witnesses of a history against each other."""
    runs = {run.run_id: run for run in history.runs}
    walked: Mapping[UUID, Life] | None = None
    findings: list[HistoryFinding] = []
    if history.journal is not None:
        walked, findings = lives(history.journal)
    findings += on_record(history, walked)
    findings += ClientRequests(history.runs).judge(history.operations)
    seen = executed(history, runs, walked)
    findings += seen.findings
    findings += unbacked(history, history.runs, seen.by_run)
    findings += crowded(history, runs, seen.by_run, walked)
    findings += met(history, seen.by_run)
    findings += followed(history)
    if findings:
        status = Status.INVALID
    else:
        status = Status.VALID if _something_happened(history) else Status.UNKNOWN
    return HistoryVerdict(
        status=status, findings=tuple(findings), counts=_counts(history, seen, findings), unseen=_unseen(history)
    )


def _something_happened(history: History) -> bool:
    """Check whether a run ended and, if executions or a journal were recorded, a task ran."""
    ran = history.executions is None or bool(history.executions)
    moved = history.journal is None or bool(history.journal)
    return ran and moved and any(run.state in FINAL for run in history.runs)


def _counts(history: History, seen: SeenExecutions, findings: list[HistoryFinding]) -> dict[str, int]:
    counts = {
        "runs": len(history.runs),
        "operations": len(history.operations),
        "changes": len(history.journal or ()),
        "executions": len(history.executions or ()),
        "targets": len(history.targets or ()),
        "re_executions": seen.re_executions,
        "zombie_overlaps": seen.zombie_overlaps,
        "stale_refused": history.stale_refused,
    }
    if history.faults is not None:
        counts["faults"] = len(history.faults)
        counts["re_executions_allowed"] = allowed(history.faults)
    return counts | {str(kind): number for kind, number in Counter(finding.kind for finding in findings).items()}


def _unseen(history: History) -> tuple[str, ...]:
    """The inputs without an observer."""
    sentences = {
        "the clients' answers, so acknowledged requests that were lost": bool(history.operations),
        "each change as it was made, so a write that was overwritten": history.journal is not None,
        "the tasks' own record, so tasks that ran twice, at the same time as another, or not at all": (
            history.executions is not None
        ),
        "which occurrences there should be, so one that was never made": history.targets is not None,
        "the faults, so the reasons of repeated runs": history.faults is not None,
    }
    return tuple(sentence for sentence, watched in sentences.items() if not watched)
