"""What all parts of control share: the ports, the time, who offers which function, and writing until it is sure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from uuid import UUID

from tickwise.domain.calendar import Rule, Rules
from tickwise.domain.errors import Misconfigured, NotFound, Unavailable
from tickwise.domain.model import Principal
from tickwise.ports.blobs import Blobs
from tickwise.ports.board import Board
from tickwise.ports.broker import Broker
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.clock import Clock
from tickwise.ports.identity import Keys
from tickwise.ports.runner import TaskKind
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.signing import Signer
from tickwise.ports.store import ExecutorRow, JobRow, NewJob, NewRun, Ready, Receipt, RuleKind, RuleRow, RunRow, Store
from tickwise.roles.announcing import Announcer
from tickwise.roles.calendars import decode_calendar
from tickwise.roles.definition import CalendarUse
from tickwise.roles.gather import Gatherer, surely
from tickwise.roles.rulebook import decode_window
from tickwise.roles.searching import Searches
from tickwise.roles.serving import Serving

LIVING_FRESH_SECONDS: Final = 2.0
"""How old the list of living executors may be: a warning may lag, a submit must not wait for it."""
TIME_FRESH_SECONDS: Final = 10.0
"""How long the store's clock is carried on by our own before it is read again: a machine's clock drifts by less
than a millisecond meanwhile."""
RING_WITHIN_SECONDS: Final = 60.0
"""Timers further away than this need no bell: every scheduler looks at least so often."""
NEAR_MARGIN_SECONDS: Final = 0.5
"""So near to the store's horizon it is its clock that decides whether a job became a run or a timer."""

DEAD_LETTER_SECONDS: Final = 30 * 86_400.0
"""A dead letter waits so long for a person."""
FEW_CALENDARS: Final = 20
"""So many names are looked up one by one; for more, all calendars of the namespace are listed."""
PAGE: Final = 500

T = TypeVar("T")


class Counters(Protocol):
    """What control tells the metrics."""

    def submitted(self, count: int) -> None:
        """Jobs that were stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What control is made of."""

    store: Store
    keys: Keys
    blobs: Blobs
    signals: Signals
    clock: Clock
    kinds: Mapping[str, TaskKind]
    calendars: CalendarReader
    searches: Searches | None = None
    """What people's searches ask, and no decision; None: the store."""
    counters: Counters | None = None
    near_seconds: float = 2.0
    """The store's own: a one-time job due within it becomes a run at once."""
    runs_kept_seconds: float | None = None
    """How long ended runs are kept; None: nobody said."""
    dead_letter_seconds: float = DEAD_LETTER_SECONDS
    announcer: Announcer | None = None
    """Tells executors by a broker what they can claim."""
    broker: Broker | None = None
    """Requests go through it, and are answered once it has them; None: each waits for the store."""
    signer: Signer | None = None
    """Signs requests, so that recorders know that this API took them in."""
    board: Board | None = None
    """Where other processes are told of them."""


class StoreTime:
    """The store's clock, near enough for a plan: read now and then, carried on by the monotonic clock between."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._offset = 0.0
        self._until = float("-inf")

    async def now(self) -> float:
        """Unix seconds, never ahead of the store's by more than the drift. Raises `StoreUnavailable`."""
        at = self._clock.monotonic()
        if at >= self._until:
            said = await self._store.now()
            at = self._clock.monotonic()
            self._offset, self._until = said - at, at + TIME_FRESH_SECONDS
        return self._offset + at

    def fresh(self) -> float | None:
        """The same if nobody need be asked."""
        at = self._clock.monotonic()
        return self._offset + at if at < self._until else None

    def known(self) -> float:
        """The same without asking anybody, for what follows a commit: as good as the last reading, however old."""
        return self._offset + self._clock.monotonic()

    def at_best(self) -> float:
        """The same for a store that is away: by this machine's clock if the store's was never read."""
        return self._clock.now() if self._until == float("-inf") else self.known()


class Living:
    """The executors that are alive, and the functions that they offer; a few seconds old at most."""

    def __init__(self, store: Store, clock: Clock, time: StoreTime) -> None:
        self._store = store
        self._clock = clock
        self._time = time
        self._rows: tuple[ExecutorRow, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._serving = Serving(())
        self._until = float("-inf")

    async def functions(self) -> frozenset[str]:
        """Names. While one caller reads them anew, the others get the old ones."""
        if self._clock.monotonic() >= self._until:
            await self._look()
        return self._names

    def fresh_functions(self) -> frozenset[str] | None:
        """The same if nobody need be asked."""
        return self._names if self._clock.monotonic() < self._until else None

    def known_functions(self) -> frozenset[str]:
        """The same however old it is."""
        return self._names

    def serving(self) -> Serving:
        """Which lanes they serve, however old that is."""
        return self._serving

    async def executors(self) -> tuple[ExecutorRow, ...]:
        """The same for the executors themselves."""
        if self._clock.monotonic() >= self._until:
            await self._look()
        return self._rows

    async def _look(self) -> None:
        self._until = self._clock.monotonic() + LIVING_FRESH_SECONDS
        try:
            now = await self._time.now()
            rows = await self._store.executors_list()
        except (Unavailable, Misconfigured):
            # It only costs a warning; the write that follows, or came before, tells whether the store is there.
            return
        self._rows = tuple(row for row in rows if row.gone_at is None and row.lease_until > now)
        self._names = frozenset(name for row in self._rows for name in row.functions)
        self._serving = Serving(self._rows)


class Core:
    """The base of every part."""

    def __init__(self, parts: Parts, gatherer: Gatherer) -> None:
        self._store = parts.store
        self._searches: Searches = parts.searches or parts.store
        self._keys = parts.keys
        self._blobs = parts.blobs
        self._signals = parts.signals
        self._clock = parts.clock
        self._kinds = parts.kinds
        self._counters = parts.counters
        self._near_seconds = parts.near_seconds
        self._calendar_reader = parts.calendars
        self._runs_kept_seconds = parts.runs_kept_seconds
        self._dead_letter_seconds = parts.dead_letter_seconds
        self._announcer = parts.announcer
        self._gatherer = gatherer
        self._time = StoreTime(parts.store, parts.clock)
        self._living = Living(parts.store, parts.clock, self._time)
        self._sequencing = asyncio.Lock()
        """Held from the look at successors until the change that names them is kept: two would not see each other."""

    async def _surely(self, write: Callable[[], Awaitable[T]]) -> T:
        """Repeat a write whose outcome is unknown. Raises `InDoubt` if it stays unknown."""
        return await surely(write, self._clock)

    async def _job(self, who: Principal, job_id: UUID) -> JobRow:
        row = await self._store.job_get(who.namespace, job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id} in the namespace {who.namespace}")
        return row

    async def _announce(self, namespace: str, job_id: UUID, runs: Sequence[NewRun]) -> None:
        """Tell executors of runs of one job that a person asked for. They are committed: nothing can fail any more."""
        if self._announcer is None:
            return
        try:
            row = await self._store.job_get(namespace, job_id)
        except Unavailable:
            return
        if row is not None:
            self._announcer.announce([Ready(run.run_id, run.due, row.lane) for run in runs])

    async def _calendars_known(self, namespace: str, names: Collection[str]) -> frozenset[str]:
        """Those of the names under which there is a calendar."""
        if len(names) > FEW_CALENDARS:
            return frozenset(names) & await self._calendar_names(namespace)
        known = [name for name in names if "\0" not in name]
        rows = [await self._store.rule_get(namespace, RuleKind.CALENDAR, name) for name in known]
        return frozenset(row.name for row in rows if row is not None)

    async def _calendar_names(self, namespace: str) -> set[str]:
        return {row.name for row in await self._rules_of(namespace, RuleKind.CALENDAR)}

    async def _rules_of(self, namespace: str, kind: RuleKind) -> list[RuleRow]:
        """All of one namespace, page by page."""
        found: list[RuleRow] = []
        while True:
            page = await self._store.rules_list(namespace, kind, after=found[-1].name if found else None, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found

    async def _rules(
        self, namespace: str, uses: Sequence[CalendarUse], labels: Mapping[str, str] | None
    ) -> Rules | None:
        """What may close the times of a job with these labels; None if nothing does."""
        calendars: list[Rule] = []
        for use in uses:
            row = await self._store.rule_get(namespace, RuleKind.CALENDAR, use.name)
            if row is not None:
                calendars.append(Rule(use.name, decode_calendar(row.body).calendar, use.mode, use.otherwise))
        rows = await self._rules_of(namespace, RuleKind.WINDOW)
        windows = [decode_window(row.name, row.body).window for row in rows]
        concerned = tuple(window for window in windows if window.concerns(labels or {}))
        return Rules(tuple(calendars), concerned) if calendars or concerned else None

    async def _run(self, who: Principal, run_id: UUID) -> RunRow:
        row = await self._store.run_get(who.namespace, run_id)
        if row is None:
            raise NotFound(f"there is no run {run_id} in the namespace {who.namespace}")
        return row


def ring_for(
    signals: Signals, jobs: Sequence[NewJob], now: float, near_seconds: float, announcer: Announcer | None = None
) -> None:
    """Wake whoever has to do with what was just stored: a run concerns executors, a timer schedulers. With an
    `announcer`, executors are told of each run by its name too.

    A one-time job that needs no decision and is due within `near_seconds`, the store's horizon, became a run; every
    other one waits as a timer.
    """
    runs = timers = False
    run_until, timer_from = now + near_seconds + NEAR_MARGIN_SECONDS, now + near_seconds - NEAR_MARGIN_SECONDS
    timer_until = now + RING_WITHIN_SECONDS
    for job in jobs:
        due = job.due
        if job.never:
            continue
        if job.run_id is None:
            timers = timers or due is None or due <= timer_until
            continue
        if due is None or due <= run_until:
            runs = True
        if due is not None and timer_from < due <= timer_until:
            timers = True
    if runs:
        signals.send(Topic.RUNS)
        if announcer is not None:
            announcer.announce(
                [
                    Ready(job.run_id, now if job.due is None else job.due, job.lane)
                    for job in jobs
                    if job.run_id is not None and not job.never and (job.due is None or job.due <= run_until)
                ]
            )
    if timers:
        signals.send(Topic.TIMERS)


ReceiptFor = Callable[[T], Receipt]
"""Makes the receipt for an answer that is not given yet: it is stored in one transaction with the effect."""
