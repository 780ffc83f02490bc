"""The results of the history checker: kinds of errors, single findings, and the verdict over all.

Invariant: a verdict is VALID only if something happened and nothing was found. A history that shows nothing is UNKNOWN,
and the caller must count that as a failure: a checker without input would accept everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

MAX_SHOWN: Final = 20
"""Findings of one kind that a text shows; all of them are counted."""


class FindingKind(StrEnum):
    """The faults that a history may show."""

    LOST = "lost"
    """A run that was promised to a client, or was made, is not on record."""
    NOT_TERMINAL = "not-terminal"
    """All had time to end, and it did not."""
    TERMINAL_LEFT = "terminal-left"
    """A final state was left."""
    ILLEGAL_TRANSITION = "illegal-transition"
    """A move that is not in the table of `lifecycle`."""
    LOST_UPDATE = "lost-update"
    """A move that does not begin where the move before it ended: one of the two was written over."""
    VERSION_GAP = "version-gap"
    """The journal of a run has a hole: something was changed past it."""
    STALE_TOKEN = "stale-token"
    """A write under another token than the current attempt's was accepted."""
    TOKEN_NOT_INCREASED = "token-not-increased"
    """A claim gave a token that is not greater than the one before it."""
    TOKEN_REUSED = "token-reused"
    """Two claims of a run, claims by two executors, or two executions of a run have the same token."""
    DUPLICATE_RUN = "duplicate-run-for-key"
    """One request, or one occurrence's name, made two runs."""
    FAILED_SUBMIT = "failed-submit-took-effect"
    """A client was told that nothing was done, and there is a run."""
    PHANTOM_EXECUTION = "phantom-execution"
    """A task ran without a request or a claim."""
    SUCCESS_WITHOUT_EXECUTION = "success-without-execution"
    """A success is on record that no execution of that attempt reached."""
    TOO_MANY_ATTEMPTS = "too-many-attempts"
    """More executions than attempts are counted, or more failures or crashes than are allowed."""
    MISSED_TARGET = "missed-target"
    """An occurrence has no run."""
    EXTRA_RUN = "extra-run"
    """A run of a schedule that meets no occurrence, or a successor that nothing asked for."""
    RE_EXECUTIONS = "re-executions-exceed-faults"
    """More ran again than faults can explain."""
    EARLY_START = "early-start"
    """A task began before its run was due."""
    LATE_START = "start-after-lease"
    """A task began although its executor had no right to it any more."""
    OVERLAP = "overlap-beyond-limit"
    """More ran at the same time than a concurrency limit allows."""
    CANCELLED_RAN_ON = "cancelled-later-succeeded"
    """A client was told that a run is cancelled, and it ended otherwise."""
    SUCCESSOR_MISSING = "successor-missing"
    """The successor of a run is missing."""
    STORE_SET_BACK = "store-set-back"
    """The database lost acknowledged writes: unknown records of that time are missing."""
    SUCCESSOR_DOUBLED = "successor-doubled"
    """The successor of a run was made twice."""


class Status(StrEnum):
    """The whole, in a word."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


COUNTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "runs": "runs with a nominal time in the period",
        "ended": "of these runs have ended",
        "attempts": "attempts of the ended runs that had more than one, or were lost with an executor: each is checked",
        "one_time_jobs_over": "one-time jobs that are over: each must have a run",
        "executors": "executors that were active in the period",
        "operations": "requests of clients",
        "changes": "changes of runs in the journal",
        "executions": "executions that tasks have told of",
        "faults": "faults that were made on purpose",
        "stale_refused": "late results that the store refused",
    }
)
"""The meaning of a count, after its number. Of any other its name says it."""


def counted(name: str) -> str:
    """The words for what was counted under this name."""
    if name in [str(kind) for kind in FindingKind]:
        return f"findings of the kind {name}"
    return COUNTED.get(name, name.replace("_", " "))


class HistoryFinding(NamedTuple):
    """One thing that is wrong."""

    kind: FindingKind
    text: str
    """A sentence for people, with the figures."""
    run_id: UUID | None = None
    job_id: UUID | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryVerdict:
    """The verdict on a history."""

    status: Status
    findings: tuple[HistoryFinding, ...]
    counts: Mapping[str, int]
    """`runs`, `operations`, `changes`, `executions`, `targets`, `re_executions`, `re_executions_allowed` (if faults
    were told), `zombie_overlaps`, `stale_refused`; and how many findings of each kind."""
    unseen: tuple[str, ...] = ()
    """The checks that this history cannot answer, because no observer recorded the facts: a sentence each."""

    @property
    def valid(self) -> bool:
        """True if something happened and all of it was right."""
        return self.status is Status.VALID

    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of errors that were found."""
        return frozenset(finding.kind for finding in self.findings)

    def as_json(self) -> str:
        """One JSON object."""
        return json.dumps(self.as_dict(), indent=2)

    def as_dict(self) -> dict[str, object]:
        """The finding as plain values."""
        return {
            "status": str(self.status),
            "counts": dict(self.counts),
            "findings": [
                {
                    "kind": str(found.kind),
                    "text": found.text,
                    "run_id": None if found.run_id is None else str(found.run_id),
                    "job_id": None if found.job_id is None else str(found.job_id),
                    "token": found.token,
                }
                for found in self.findings
            ],
            "unseen": list(self.unseen),
        }

    def as_text(self) -> str:
        """Lines for people: the verdict, what was found (the first of each kind), what was counted, what was unseen."""
        lines = [f"history: {self.status}"]
        if self.status is Status.UNKNOWN:
            lines.append("  nothing happened in it, so it shows nothing")
        shown: dict[FindingKind, int] = {}
        for found in self.findings:
            shown[found.kind] = shown.get(found.kind, 0) + 1
            if shown[found.kind] <= MAX_SHOWN:
                lines.append(f"  {found.kind}: {found.text}")
        lines += [f"  … and {n - MAX_SHOWN} more of {kind}" for kind, n in shown.items() if n > MAX_SHOWN]
        lines += ["  counted:", *(f"    {number:>7}  {counted(name)}" for name, number in self.counts.items())]
        lines += [f"  not seen: {text}" for text in self.unseen]
        return "\n".join(lines)
