"""Reads the journal: each run's changes must be one unbroken, legal walk, and its tokens must grow.

    None ──► QUEUED ──► DISPATCHED (token 7) ──► QUEUED ──► DISPATCHED (token 9) ──► SUCCESS (named token 9)
     1         2                 3                  4                 5                  versions: no hole, no repeat

Which moves are legal is asked of `lifecycle`, never written down again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final
from uuid import UUID

from tickwise.domain.history.events import RunChange
from tickwise.domain.history.findings import FindingKind, HistoryFinding
from tickwise.domain.lifecycle import FINAL, HELD, RunState, steps

LEGAL: Final = steps() | {
    (None, RunState.QUEUED),
    (None, RunState.SKIPPED),
    (RunState.QUEUED, None),
    (RunState.DISPATCHED, None),
}
"""The table's moves, and how a run comes into being and is taken back: what never began may go without a record."""
EXECUTORS_ALONE: Final = frozenset({RunState.RUNNING, RunState.SUCCESS, RunState.RETRYING})
"""Events that only an executor can know, so its token is always named."""


class Attempt:
    """One claim of one run."""

    __slots__ = ("after", "executor", "taken_at")

    def __init__(self, executor: int) -> None:
        self.executor = executor
        self.taken_at: float | None = None
        """The time at which the attempt ended or was taken away, by the store's clock; None: it is still held."""
        self.after: RunState | None = None
        """The state of the run after it."""


class Life:
    """The journal of one run."""

    __slots__ = ("attempts", "retries", "state")

    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}
        """By token."""
        self.retries = 0
        self.state: RunState | None = None
        """The last one; None: it was taken back."""


def lives(journal: Iterable[RunChange]) -> tuple[Mapping[UUID, Life], list[HistoryFinding]]:
    """The life of each run in the journal, and what is wrong with it."""
    by_run: dict[UUID, list[RunChange]] = defaultdict(list)
    for change in journal:
        by_run[change.run_id].append(change)
    reader = _Reader()
    found = {run_id: reader.read(changes) for run_id, changes in by_run.items()}
    return found, reader.findings


class _Reader:
    """Walks one run after the other. It knows all tokens: one claim gives the same to all runs that it takes, so a
    token is one executor's, and of one run it is given once."""

    def __init__(self) -> None:
        self.findings: list[HistoryFinding] = []
        self._given: dict[int, int] = {}
        """Executors, by token."""

    def read(self, changes: Sequence[RunChange]) -> Life:
        life, token, version = Life(), 0, 0
        for change in sorted(changes, key=attrgetter("version")):
            unbroken = self._numbered(change, version)
            self._moves(change, life.state, version, unbroken=unbroken)
            if change.after is RunState.DISPATCHED:
                token = self._claimed(change, life, token)
            elif change.before in HELD:
                self._written(change, life, token)
            if change.after is RunState.RETRYING:
                life.retries += 1
            version, life.state = change.version, change.after
        return life

    def _numbered(self, change: RunChange, version: int) -> bool:
        if change.version == version + 1:
            return True
        if change.version == version:
            text = f"run {change.run_id} has two changes number {version}: one was written over the other"
            self._add(FindingKind.LOST_UPDATE, text, change)
        else:
            text = f"run {change.run_id} goes from version {version} to {change.version}"
            self._add(FindingKind.VERSION_GAP, text, change)
        return False

    def _moves(self, change: RunChange, state: RunState | None, version: int, *, unbroken: bool) -> None:
        before, after = change.before, change.after
        if version == 0 and (before, after) == (RunState.QUEUED, RunState.SKIPPED):
            # An occurrence that is put on record as skipped; stores say that it ended from QUEUED.
            before = None
        ended = state if state in FINAL else before
        if ended in FINAL:
            text = f"run {change.run_id} had ended {ended} and became {_named(after)}"
            self._add(FindingKind.TERMINAL_LEFT, text, change)
            return
        if unbroken and before is not state:
            text = f"run {change.run_id} was {_named(state)} and was changed as if it were {_named(before)}"
            self._add(FindingKind.LOST_UPDATE, text, change)
        if (before, after) not in LEGAL:
            text = f"run {change.run_id} went from {_named(before)} to {_named(after)}"
            self._add(FindingKind.ILLEGAL_TRANSITION, text, change)

    def _claimed(self, change: RunChange, life: Life, token: int) -> int:
        given = change.token
        if given in life.attempts:
            text = f"run {change.run_id} was claimed twice with token {given}"
            self._add(FindingKind.TOKEN_REUSED, text, change)
        elif self._given.setdefault(given, change.executor) != change.executor:
            text = (
                f"run {change.run_id} was claimed by executor {change.executor} with token {given}, "
                f"which executor {self._given[given]} was given before"
            )
            self._add(FindingKind.TOKEN_REUSED, text, change)
        elif given <= token:
            text = f"run {change.run_id} was claimed with token {given} after {token}"
            self._add(FindingKind.TOKEN_NOT_INCREASED, text, change)
        life.attempts[given] = Attempt(change.executor)
        return given

    def _written(self, change: RunChange, life: Life, token: int) -> None:
        attempt = life.attempts.get(token)
        if change.token != token and (change.token or change.after in EXECUTORS_ALONE):
            text = f"run {change.run_id} became {_named(change.after)} under token {change.token}, it had {token}"
            self._add(FindingKind.STALE_TOKEN, text, change)
        elif attempt is not None and change.executor not in (0, attempt.executor):
            text = (
                f"run {change.run_id} became {_named(change.after)} by executor {change.executor}, "
                f"and executor {attempt.executor} held it"
            )
            self._add(FindingKind.STALE_TOKEN, text, change)
        if attempt is not None and change.after not in HELD:
            attempt.taken_at, attempt.after = change.at, change.after

    def _add(self, kind: FindingKind, text: str, change: RunChange) -> None:
        self.findings.append(HistoryFinding(kind, text, change.run_id, None, change.token or None))


def _named(state: RunState | None) -> str:
    return "nothing" if state is None else str(state)
