"""The health of the installation, part by part, as `/healthz` answers and as the outbound heartbeat asks.

    store, broker, notes of roles, blobs ──looked at together, each for a bounded time──► facts ──judge──► parts

A part is `ok`, `degraded` (it works, and somebody should look) or `failing` (work does not get done), with one
sentence.
Invariant: a part that does not answer makes itself failing, and no other part; a look takes `LOOK_SECONDS` at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from tickwise.domain.errors import CassandraAway, KeeperAway, TickwiseError, Unavailable
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.observability.freshness import Fresh
from tickwise.observability.waits import answered
from tickwise.ports.broker import BrokerState
from tickwise.ports.clock import Clock
from tickwise.ports.store import KindBacklog, StoreStats
from tickwise.roles.shared.membership import RoleFacts

Value = TypeVar("Value")

LOOK_SECONDS: Final = 5.0
"""The longest that a part may take to answer: who asks, a load balancer or a person, gives up soon."""
FRESH_SECONDS: Final = 1.0
"""A look serves all that ask within this time, so that many of them do not load the store."""
LATE_SECONDS: Final = 60.0
"""A timer or a run that is so late means that nobody keeps up: as `/readyz` judges."""
SLUGGISH_SECONDS: Final = 10.0
"""A timer that is so late shows that schedulers begin to fall behind."""
SLOW_STORE_SECONDS: Final = 1.0
"""A look at the store takes milliseconds; one that takes so long says that it is overloaded."""
UNTOLD_SECONDS: Final = 300.0
"""A notice that is due and waits so long: nobody sends it, or its channel does not answer."""
LITTLE_SPACE: Final = 0.10
"""Of the disk of the blobs: below it somebody should make room, …"""
NO_SPACE: Final = 0.02
"""… and below this writes are about to fail."""


class PartStatus(StrEnum):
    """The status of a part."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILING = "failing"


_RANK: Final = {PartStatus.OK: 0, PartStatus.DEGRADED: 1, PartStatus.FAILING: 2}


class PartHealth(NamedTuple):
    """One part, and how it is."""

    status: PartStatus
    sentence: str


class HealthReport(NamedTuple):
    """All parts, by name, and the worst of them."""

    status: PartStatus
    parts: Mapping[str, PartHealth]


class InvariantPass(NamedTuple):
    """The result of one whole look at the store's invariants."""

    at: float
    """Its end, by the store's clock."""
    violated: int
    """Violations that could not be repaired at once, of all invariants."""
    unchecked: int
    """Invariants that could not be looked at."""


class DiskSpace(NamedTuple):
    """The disk that blobs are on."""

    free_bytes: int
    size_bytes: int
    failing_seconds: float
    """For how long no blob could be written although some were tried; 0: the last one was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSources:
    """The sources of a look, each asked by itself. One that is None is not there, and has no part in the report."""

    stats: Callable[[], Awaitable[StoreStats]]
    """Raises `Unavailable`."""
    roles: Callable[[], Awaitable[Sequence[RoleFacts]]] | None = None
    """Raises `Unavailable` if the notes of the roles cannot be read."""
    broker: Callable[[], BrokerState] | None = None
    broker_is_needed: bool = False
    """Submits go to the broker alone; else the store does without it."""
    blobs: Callable[[], Awaitable[DiskSpace | None]] | None = None
    """None as the answer: they are on no disk of this machine. Raises `OSError`."""
    notices: Callable[[], Awaitable[Mapping[NoticeChannelKind, KindBacklog]]] | None = None
    """Raises `Unavailable`."""


class HealthCheck:
    """Looks at all parts, once for all that ask within a second."""

    def __init__(self, sources: HealthSources, clock: Clock, *, look_seconds: float = LOOK_SECONDS) -> None:
        """`look_seconds`: the longest that a part may take."""
        self._sources = sources
        self._clock = clock
        self._look_seconds = look_seconds
        self._report = Fresh(self._look, clock, FRESH_SECONDS)

    async def report(self) -> HealthReport:
        """The report, no older than a second. Raises nothing: a part that cannot be asked is failing."""
        return await self._report.get()

    async def _look(self) -> HealthReport:
        sources = self._sources
        looks: dict[str, Awaitable[Mapping[str, PartHealth]]] = {"store": self._store()}
        if sources.broker is not None:
            looks["broker"] = self._broker(sources.broker)
        if sources.roles is not None:
            looks["signals"] = self._roles(sources.roles)
        if sources.blobs is not None:
            looks["blobs"] = self._blobs(sources.blobs)
        if sources.notices is not None:
            looks["notices"] = self._notices(sources.notices)
        found = await asyncio.gather(*looks.values())
        parts = {name: part for each in found for name, part in each.items()}
        worst = max((part.status for part in parts.values()), key=_RANK.__getitem__)
        return HealthReport(worst, parts)

    async def _bounded(self, source: Callable[[], Awaitable[Value]]) -> Value:
        """The answer of a source. Raises `Unavailable`, also if there is none in time or none that was expected."""
        try:
            return await answered(source, self._look_seconds)
        except Unavailable:
            raise
        except (OSError, TickwiseError) as failure:
            raise Unavailable("no answer") from failure

    async def _store(self) -> Mapping[str, PartHealth]:
        began = self._clock.monotonic()
        try:
            stats = await self._bounded(self._sources.stats)
        except Unavailable as away:
            unknown = PartHealth(PartStatus.DEGRADED, "This cannot be known while the store is away.")
            failing = PartHealth(PartStatus.FAILING, _cause(away))
            return {"store": failing, "executors": unknown, "oldest_ready": unknown, "timers": unknown}
        seconds = self._clock.monotonic() - began
        slow = PartStatus.DEGRADED if seconds > SLOW_STORE_SECONDS else PartStatus.OK
        store = PartHealth(slow, f"The store answered within {seconds * 1000:.0f} ms.")
        return {"store": store, **_judge_stats(stats)}

    async def _broker(self, state: Callable[[], BrokerState]) -> Mapping[str, PartHealth]:
        found = state()
        if found.reachable:
            return {"broker": PartHealth(PartStatus.OK, "The broker answers this process.")}
        if self._sources.broker_is_needed:
            status, effect = PartStatus.FAILING, "Submits are refused until it is back."
        else:
            status, effect = PartStatus.DEGRADED, "Runs go on: executors find them in the store."
        return {"broker": PartHealth(status, f"The broker does not answer this process. {effect}")}

    async def _roles(self, source: Callable[[], Awaitable[Sequence[RoleFacts]]]) -> Mapping[str, PartHealth]:
        try:
            roles = await self._bounded(source)
        except Unavailable:
            away = "Signals do not pass. Each role looks for its work by itself, so work begins a little later."
            unknown = PartHealth(PartStatus.DEGRADED, "This cannot be known while signals do not pass.")
            return {
                "signals": PartHealth(PartStatus.DEGRADED, away),
                "schedulers": unknown,
                "invariants": unknown,
            }
        schedulers = [role for role in roles if role.role == "scheduler"]
        passes = [found for role in schedulers if (found := pass_of(role)) is not None]
        return {
            "signals": PartHealth(PartStatus.OK, "Roles hear of each other."),
            "schedulers": _judge_schedulers(len(schedulers)),
            "invariants": _judge_pass(max(passes, default=None)),
        }

    async def _blobs(self, source: Callable[[], Awaitable[DiskSpace | None]]) -> Mapping[str, PartHealth]:
        try:
            space = await self._bounded(source)
        except Unavailable:
            sentence = "The disk of scripts and outputs does not answer this process."
            return {"blobs": PartHealth(PartStatus.FAILING, sentence)}
        return {} if space is None else {"blobs": _judge_space(space)}

    async def _notices(
        self, source: Callable[[], Awaitable[Mapping[NoticeChannelKind, KindBacklog]]]
    ) -> Mapping[str, PartHealth]:
        try:
            backlog = await self._bounded(source)
        except Unavailable:
            sentence = "This cannot be known while the store is away."
            return {"notices": PartHealth(PartStatus.DEGRADED, sentence)}
        return {"notices": _judge_notices(backlog.values())}


def _cause(away: Unavailable) -> str:
    """The cause of a store that does not answer, as a sentence that names no machine."""
    if isinstance(away, KeeperAway):
        return "No keeper answers this process: start `tickwise keeper`. Nothing new starts until one answers."
    if isinstance(away, CassandraAway):
        return "Cassandra does not answer. Nothing new starts until a majority of its nodes does."
    return "The store does not answer this process. Nothing new starts until it does."


def pass_of(role: RoleFacts) -> InvariantPass | None:
    """The last pass that a scheduler told of."""
    if role.invariants_at is None:
        return None
    return InvariantPass(role.invariants_at, role.invariants_violated, role.invariants_unchecked)


def trouble(stats: StoreStats, last_pass: InvariantPass | None) -> str | None:
    """The reason why the invariants do not hold, as a sentence; None: they hold. A pass that has not ended yet
    has found nothing."""
    timers, invariants = _judge_timers(stats.timers_late_seconds), _judge_pass(last_pass)
    if timers.status is PartStatus.FAILING:
        return timers.sentence
    return None if invariants.status is PartStatus.OK else invariants.sentence


def _judge_stats(stats: StoreStats) -> dict[str, PartHealth]:
    waits = stats.oldest_ready_seconds
    if stats.executors:
        executors = PartHealth(PartStatus.OK, _counted(stats.executors, "executor is active", "executors are active"))
    elif waits > LATE_SECONDS:
        executors = PartHealth(PartStatus.FAILING, "No executor is active, and runs wait. Start one.")
    else:
        executors = PartHealth(PartStatus.DEGRADED, "No executor is active. What becomes due will wait.")
    if waits > LATE_SECONDS:
        sentence = f"A run has waited {waits:.0f} s beyond its time: too few executors, or none offers what it needs."
        oldest = PartHealth(PartStatus.DEGRADED, sentence)
    else:
        oldest = PartHealth(PartStatus.OK, f"The oldest run that could start has waited {waits:.1f} s.")
    parts = {"executors": executors, "oldest_ready": oldest}
    return parts | {"timers": _judge_timers(stats.timers_late_seconds)} if stats.sees_timers else parts


def _judge_timers(late: float) -> PartHealth:
    if late > LATE_SECONDS:
        return PartHealth(PartStatus.FAILING, f"The earliest timer is {late:.0f} s late: no scheduler keeps up.")
    if late > SLUGGISH_SECONDS:
        return PartHealth(PartStatus.DEGRADED, f"The earliest timer is {late:.0f} s late.")
    return PartHealth(PartStatus.OK, "Timers fire in time.")


def _judge_schedulers(count: int) -> PartHealth:
    if not count:
        return PartHealth(PartStatus.FAILING, "No scheduler is active, so nothing becomes due. Start one.")
    return PartHealth(PartStatus.OK, _counted(count, "scheduler is active", "schedulers are active"))


def _judge_pass(last: InvariantPass | None) -> PartHealth:
    if last is None:
        return PartHealth(PartStatus.OK, "No scheduler has ended a pass over the invariants yet.")
    at = datetime.fromtimestamp(last.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if last.violated:
        sentence = f"The pass of {at} found {last.violated} violations of invariants that it could not repair."
        return PartHealth(PartStatus.DEGRADED, sentence)
    if last.unchecked:
        sentence = f"The pass of {at} could not look at {last.unchecked} of the invariants."
        return PartHealth(PartStatus.DEGRADED, sentence)
    return PartHealth(PartStatus.OK, f"The pass of {at} found every invariant to hold.")


def _judge_space(space: DiskSpace) -> PartHealth:
    share = space.free_bytes / space.size_bytes if space.size_bytes else 1.0
    free = f"{space.free_bytes / 1e9:.1f} GB of {space.size_bytes / 1e9:.1f} GB are free for scripts and outputs."
    if space.failing_seconds > LOOK_SECONDS:
        sentence = f"No output could be stored for {space.failing_seconds:.0f} s, so runs wait at their end. {free}"
        return PartHealth(PartStatus.FAILING, sentence)
    if share < NO_SPACE:
        return PartHealth(PartStatus.FAILING, free)
    return PartHealth(PartStatus.DEGRADED if share < LITTLE_SPACE else PartStatus.OK, free)


def _judge_notices(kinds: Iterable[KindBacklog]) -> PartHealth:
    """People are not told what they should be told: somebody should look, and work goes on."""
    found = list(kinds)
    waiting, failing = sum(each.waiting for each in found), sum(each.failing for each in found)
    oldest = max((each.oldest_seconds for each in found), default=0.0)
    words = []
    if failing:
        words.append(_counted(failing, "channel fails", "channels fail"))
    if waiting:
        words.append(f"{_counted(waiting, 'notice waits', 'notices wait')[:-1]}, the oldest for {oldest:.0f} s.")
    degraded = bool(failing) or oldest > UNTOLD_SECONDS
    return PartHealth(PartStatus.DEGRADED if degraded else PartStatus.OK, " ".join(words) or "No notice waits.")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}."
