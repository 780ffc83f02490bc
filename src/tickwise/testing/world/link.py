"""One process's way to the store, on which everything can go wrong that can go wrong on a network.

    process ──request──► (on its way) ──► the store: the call takes effect, all at once
            ◄──answer─── (on its way) ◄──

What goes wrong is said by `CallFaults`: a request is lost before its effect, an answer after it, either hangs until the
caller gives up, the caller dies or freezes while its request is under way. What is under way belongs to the network, so
a dead process's last request still arrives.

Invariant: what the caller is told is true. `StoreUnavailable` only where nothing was written; a write that may have
taken effect is `InDoubt`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.store import BATCH_SECONDS, Fire, FireBatch, FireRequest, Handover
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.process import SimulatedProcess

READS: Final = frozenset(
    {
        "now", "jobs.get", "searches.jobs", "tasks.get", "tasks.page", "receipts.find", "runs.get",
        "runs.attempts", "searches.runs", "searches.count", "searches.tally", "executors.all", "upkeep.stats",
        "incidents.between", "rules.find", "rules.all", "keys.find", "keys.count",
        "completions.pending", "queues.all", "checks.violations", "searches.letters", "letters.get", "operations.get",
        "searches.operations", "timers.take", "runs.waiting", "marks.get", "executors.keys",
        "keys.page", "epochs.all", "held.digest", "held.tokens", "held.take_again", "tasks.scripts", "removals.jobs",
        "audit.heads", "error_groups.pending", "notification_rules.version", "notification_rules.find", "alerts.events",
        "stops.find",
    }
)  # fmt: skip
"""Calls that leave nothing behind: one that got no answer was not written, whatever became of it."""


class CallFate(Enum):
    """The fate of one call."""

    FINE = "fine"
    REQUEST_LOST = "request lost"
    """The link breaks before the request arrives; the caller hears of it at once."""
    ANSWER_LOST = "answer lost"
    """The link breaks after the effect."""
    REFUSED = "refused"
    """The store is there and takes nothing, or nobody listens at its address."""
    HANGS = "hangs"
    """The request arrives, the answer does not; the caller waits until it gives up."""
    LATE = "late"
    """The request takes effect after the caller has given up: it stood in a queue of the server's."""
    SWALLOWED = "swallowed"
    """Nothing arrives, and nobody says so."""
    DIES_AFTER = "dies after"
    """The caller dies when the effect is there and the answer is not."""
    FREEZES_AFTER = "freezes after"
    """The caller stands still from then on."""


class Way(Enum):
    """The state of the network between a process and the store."""

    OPEN = "open"
    CUT = "cut"
    """Sent bytes are lost, and neither end notices."""
    BROKEN = "broken"
    """Sent bytes are lost, and both ends notice."""


class Passage(NamedTuple):
    """The course of one call."""

    fate: CallFate
    out_seconds: float
    back_seconds: float
    patience_seconds: float
    """After so long without an answer the caller gives up."""
    late_seconds: float = 0.0
    """The time after that at which a late request takes effect."""


class CallFaults(Protocol):
    """Decides how calls go."""

    def passage(self, process: SimulatedProcess, call: str) -> Passage:
        """Of a call that begins now."""
        ...

    def way(self, process: SimulatedProcess, *, back: bool, sent_in: int) -> Way:
        """The state of the way to the store, or back, at this moment. `sent_in` is the `era` in which the call
        began."""
        ...

    @property
    def era(self) -> int:
        """The number of starts of the store: no connection outlives one."""
        ...

    def is_lost(self, sent_in: int) -> bool:
        """Check whether a message of that era, not yet taken up, was lost with its server."""
        ...

    def strike(self, process: SimulatedProcess, fate: CallFate) -> None:
        """Let the caller die or freeze."""
        ...


class StoreCall(NamedTuple):
    """A call on its way."""

    process: SimulatedProcess
    """Its owner."""
    name: str
    arguments: Sequence[Any]
    sent: float
    """The loop's time at which it was asked."""


class Observer(Protocol):
    """Sees every call that reaches the store."""

    def asked(self, call: StoreCall) -> None:
        """It begins on its way."""
        ...

    def before(self, call: StoreCall) -> None:
        """It is about to take effect."""
        ...

    def after(self, call: StoreCall, answer: Any) -> None:
        """It took effect; a refusal is an exception as `answer`."""
        ...

    def answered(self, call: StoreCall, answer: Any) -> None:
        """Its answer reached an active caller."""
        ...


class LinkedStore(WrappedStore):
    """The memory store as seen through the link of one process: the port `Store`."""

    def __init__(
        self, store: MemoryStore, process: SimulatedProcess, *, loop: WorldLoop, weather: CallFaults, observer: Observer
    ) -> None:
        self._store = store
        self._process = process
        self._loop = loop
        self._weather = weather
        self._observer = observer
        self._batches: dict[int, asyncio.TimerHandle] = {}
        """The batches of timers that the store has open for this process, and the end of each for silence."""
        self._tell: Callable[[Handover], None] | None = None
        process.at_death.append(self.hang_up)
        super().__init__(store)
        self.timers.take, self.timers.commit, self.timers.release = (
            self._take_timers,
            self._commit_timers,
            self._end_timers,
        )

    def around(self, name: str, call: Call) -> Call:
        """Each call is a round trip."""

        async def linked(*arguments: Any, **named: Any) -> Any:
            return await self.call(name, lambda: at_once(call(*arguments, **named)), (*arguments, *named.values()))

        return linked

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port. What one call did is told with its answer, and lost with it."""
        self._tell = tell

    async def _take_timers(self, request: FireRequest) -> FireBatch:
        """See the port. The store ends the batch by itself when the connection of the process breaks."""
        taken: list[int] = []
        waits = True

        def effect() -> FireBatch:
            if not waits:
                raise StoreUnavailable("the client is gone")
            batch: FireBatch = at_once(self._store.timers.take(request))
            taken.append(batch.batch_id)
            # The store ends it after its time, whatever becomes of the process.
            self._batches[batch.batch_id] = self._loop.call_later(
                BATCH_SECONDS, self._release, batch.batch_id, context=NETWORK
            )
            return batch

        try:
            batch: FireBatch = await self.call("timers.take", effect, (request,))
        except BaseException:
            waits = False
            for batch_id in taken:
                self._release(batch_id)
            raise
        return batch

    async def _commit_timers(self, batch_id: int, fires: Sequence[Fire]) -> int:
        """See the port."""

        def effect() -> int:
            if (bound := self._batches.pop(batch_id, None)) is not None:
                bound.cancel()
            return int(at_once(self._store.timers.commit(batch_id, fires)))

        return int(await self.call("timers.commit", effect, (batch_id, fires)))

    async def _end_timers(self, batch_id: int) -> None:
        """See the port. The connection of a batch is closed without a word to the store."""
        self._release(batch_id)

    def _release(self, batch_id: int) -> None:
        if (bound := self._batches.pop(batch_id, None)) is not None:
            bound.cancel()
        at_once(self._store.timers.release(batch_id))

    async def call(self, name: str, effect: Callable[[], Any], arguments: Sequence[Any] = ()) -> Any:
        """One round trip."""
        call = StoreCall(self._process, name, arguments, self._loop.time())
        self._observer.asked(call)
        trip = _Trip(self, call, effect, self._weather.passage(self._process, name))
        trip.begin()
        answer = await trip.answer
        if self._tell is not None:
            for handover in trip.handovers:
                self._tell(handover)
        return answer

    def hang_up(self) -> None:
        """End the batches that are open: the connection broke, or the process died."""
        for batch_id in [*self._batches]:
            self._release(batch_id)


class _Trip:
    """One call on its way. All of it happens outside of the caller's process."""

    def __init__(self, link: LinkedStore, call: StoreCall, effect: Callable[[], Any], passage: Passage) -> None:
        self.answer: asyncio.Future[Any] = link._loop.create_future()
        self.handovers: list[Handover] = []
        """The effects on other runs."""
        self._link = link
        self._call = call
        self._effect = effect
        self._passage = passage
        self._era = link._weather.era

    def begin(self) -> None:
        """Send it."""
        passage, outside = self._passage, NETWORK
        later = self._link._loop.call_later
        fate = passage.fate
        if fate is CallFate.REFUSED:
            later(passage.out_seconds, self._fail, StoreUnavailable("nobody listens there"), context=outside)
        elif fate is CallFate.REQUEST_LOST:
            later(passage.out_seconds, self._break, context=outside)
        elif fate is CallFate.LATE:
            self._is_lost()
            late = passage.patience_seconds + passage.out_seconds + passage.late_seconds
            later(late, self._take_effect_late, context=outside)
        elif fate is CallFate.SWALLOWED:
            self._is_lost()
        else:
            later(passage.out_seconds, self._arrive, context=outside)

    def _arrive(self) -> None:
        link, process = self._link, self._link._process
        if self.answer.done():
            return  # the caller has given up, and its link is closed
        if not self._gets_through(back=False):
            return
        answer = self._take_effect()
        fate = self._passage.fate
        if fate in (CallFate.DIES_AFTER, CallFate.FREEZES_AFTER):
            link._weather.strike(process, fate)
        if fate is CallFate.ANSWER_LOST:
            link._loop.call_later(self._passage.back_seconds, self._break, context=NETWORK)
        elif fate is CallFate.HANGS:
            self._is_lost()
        else:
            link._loop.call_later(self._passage.back_seconds, self._return, answer, context=NETWORK)

    def _take_effect_late(self) -> None:
        if not self._link._weather.is_lost(self._era):
            self._take_effect()

    def _take_effect(self) -> Any:
        """The store's answer; a refusal is an exception."""
        observer = self._link._observer
        observer.before(self._call)
        self._link._store.on_handover(self.handovers.append)
        answer: Any
        try:
            answer = self._effect()
        except Exception as failure:  # noqa: BLE001  # any answer of the store, a refusal too, goes to the caller
            answer = failure
        observer.after(self._call, answer)
        return answer

    def _return(self, answer: Any) -> None:
        link = self._link
        if self.answer.done() or not self._gets_through(back=True):
            return
        if link._process.alive:
            link._observer.answered(self._call, answer)
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)

    def _gets_through(self, *, back: bool) -> bool:
        way = self._link._weather.way(self._link._process, back=back, sent_in=self._era)
        if way is Way.BROKEN:
            self._break()
        elif way is Way.CUT:
            self._is_lost()
        return way is Way.OPEN

    def _is_lost(self) -> None:
        """Nobody will ever answer, and the caller does not know it: it waits as long as it has patience."""
        loop = self._link._loop
        loop.call_at(self._call.sent + self._passage.patience_seconds, self._break, context=NETWORK)

    def _break(self) -> None:
        """The link breaks and the caller notices, or it gives up."""
        name = self._call.name
        kind = StoreUnavailable if name in READS else InDoubt
        self._fail(kind(f"the link broke during {name}"))

    def _fail(self, failure: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(failure)


def at_once(call: Coroutine[Any, Any, Any] | Any) -> Any:
    """The answer of a coroutine that waits for nothing, as all of the memory store do."""
    coroutine = call.__await__() if not isinstance(call, Coroutine) else call
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the memory store waited for something: its calls must be atomic")
