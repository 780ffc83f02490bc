"""The context that all services of control share: the ports, the time, the active executors, and writes that are
repeated until their outcome is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.domain.errors import JobNotFound, Misconfigured, NotFound, Unavailable
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal
from tickwise.domain.rules.confinement import Isolation
from tickwise.domain.selectors import matches
from tickwise.observability.tracing import Tracer
from tickwise.ports.blobs import Blobs, SignedDownloads
from tickwise.ports.clock import Clock
from tickwise.ports.identity.namespaces import NamespaceState, namespace_closing
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.signals import Signals
from tickwise.ports.store import ExecutorRow, JobRow, Receipt, RunRow, Store
from tickwise.ports.store.searches import Searches
from tickwise.roles.shared.group_commit import surely
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.served_queues import NOBODY, Serving

EXECUTORS_FRESH_SECONDS: Final = 2.0
"""The greatest age of the list of active executors: a warning may lag, a submit must not wait for it."""
TIME_FRESH_SECONDS: Final = 10.0
"""The time for which our own clock carries the store's on before it is read again: a machine's clock drifts by less
than a millisecond meanwhile."""
NAMESPACES_FRESH_SECONDS: Final = 4.0
"""The greatest age of a namespace's known state."""
NAMESPACES_MAX: Final = 10_000
DEAD_LETTER_SECONDS: Final = 30 * 86_400.0
"""A dead letter waits so long for a person."""

T = TypeVar("T")

ReceiptFor = Callable[[T], Receipt]
"""Makes the receipt for an answer that is not given yet: it is stored in one transaction with the effect."""


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
        """The store's time, if no query is needed for it; else None."""
        at = self._clock.monotonic()
        return self._offset + at if at < self._until else None

    def known(self) -> float:
        """The store's time by the last reading, however old, without a query: for the work that follows a commit."""
        return self._offset + self._clock.monotonic()

    def at_best(self) -> float:
        """The best known time while the store is away: this machine's clock if the store's was never read."""
        return self._clock.now() if self._until == float("-inf") else self.known()


class ActiveExecutors:
    """The executors whose lease is good, and the functions that they offer; a few seconds old at most."""

    def __init__(self, store: Store, clock: Clock, time: StoreTime) -> None:
        self._store = store
        self._clock = clock
        self._time = time
        self._rows: tuple[ExecutorRow, ...] = ()
        self._serving = NOBODY
        self._until = float("-inf")

    async def functions(self) -> frozenset[str]:
        """The names of the offered functions. While one caller reads them anew, the others get the old ones."""
        return (await self.serving()).functions

    async def serving(self) -> Serving:
        """The functions and the lanes that they serve."""
        if self._clock.monotonic() >= self._until:
            await self._look()
        return self._serving

    def fresh_serving(self) -> Serving | None:
        """The functions and lanes of the last query, if it is recent; else None. Sends no query."""
        return self._serving if self._clock.monotonic() < self._until else None

    def known_serving(self) -> Serving:
        """The functions and lanes of the last query, however old it is."""
        return self._serving

    async def rows(self) -> tuple[ExecutorRow, ...]:
        """The active executors."""
        if self._clock.monotonic() >= self._until:
            await self._look()
        return self._rows

    async def _look(self) -> None:
        self._until = self._clock.monotonic() + EXECUTORS_FRESH_SECONDS
        try:
            now = await self._time.now()
            rows = await self._store.executors.all()
        except (Unavailable, Misconfigured):
            # An old list costs only a warning; the write beside this query shows whether the store is there.
            return
        self._rows = tuple(row for row in rows if row.gone_at is None and row.lease_until > now)
        self._serving = Serving(self._rows)


class IsolationFloors:
    """The least isolation that namespaces demand, `NAMESPACES_FRESH_SECONDS` old at most."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[float, Isolation]] = {}
        """Until when each answer counts, on the monotonic clock, and the answer."""

    def fresh(self, namespace: str) -> Isolation | None:
        """The last answer, if it is recent; else None. Sends no query."""
        until, floor = self._known.get(namespace, (0.0, Isolation.PROCESS))
        return floor if self._clock.monotonic() < until else None

    async def of(self, namespace: str) -> Isolation:
        """The least isolation of a namespace. While the store is away, the last answer counts: no executor claims a run
        below it in any case."""
        found = self.fresh(namespace)
        if found is not None:
            return found
        _, found = self._known.get(namespace, (0.0, Isolation.PROCESS))
        with suppress(Unavailable):
            row = await self._store.namespaces.get(namespace)
            found = Isolation.PROCESS if row is None else row.quotas.least_isolation
            if len(self._known) >= NAMESPACES_MAX:
                self._known.clear()
            self._known[namespace] = (self._clock.monotonic() + NAMESPACES_FRESH_SECONDS, found)
        return found

    def forget(self, namespace: str) -> None:
        """Ask anew: it was changed here."""
        self._known.pop(namespace, None)


class NamespaceStates:
    """The states of namespaces, `NAMESPACES_FRESH_SECONDS` old at most. `default` is always open."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._closing: dict[str, tuple[float, bool]] = {}
        """Until when each answer counts, on the monotonic clock, and the answer."""

    async def check_open(self, name: str, breaker: StoreCircuitBreaker | None = None) -> None:
        """Raises `Conflict`, code `namespace_closing`, for a namespace that takes nothing new. While the store is away,
        the last answer counts. `breaker` bounds the wait for it."""
        if name == DEFAULT_NAMESPACE:
            return
        until, closing = self._closing.get(name, (0.0, False))
        now = self._clock.monotonic()
        if until <= now:
            with suppress(Unavailable):
                get = partial(self._store.namespaces.get, name)
                row = await (get() if breaker is None else breaker.ask(get))
                closing = row is not None and row.state is not NamespaceState.ACTIVE
                if len(self._closing) >= NAMESPACES_MAX:
                    self._closing.clear()
                self._closing[name] = (now + NAMESPACES_FRESH_SECONDS, closing)
        if closing:
            raise namespace_closing(name)


class ControlContext:
    """The ports of every service. The caller of each method, a `Principal`, is an argument of that method."""

    def __init__(
        self,
        *,
        store: Store,
        blobs: Blobs,
        signals: Signals,
        clock: Clock,
        searches: Searches | None = None,
        hint_publisher: HintPublisher | None = None,
        near_seconds: float = 2.0,
        runs_kept_seconds: float | None = None,
        dead_letter_seconds: float = DEAD_LETTER_SECONDS,
        tracer: Tracer | None = None,
        sandboxes: bool = True,
        sealer: EnvelopeSealer | None = None,
        signed_downloads: SignedDownloads | None = None,
        outputs_kept_seconds: float | None = None,
    ) -> None:
        """`searches` answers people's searches; None: the store. `hint_publisher` publishes claim hints through the
        broker. `near_seconds` is the store's: a one-time job due within it becomes a run at once. `runs_kept_seconds`:
        how long ended runs are kept; None: unknown. `dead_letter_seconds`: how long a dead letter waits for a person.
        `tracer` records traces. `sandboxes`: False if the operator wants none, so that a new job whose body says
        nothing of it is a plain process. `sealer` encrypts secrets; None: nothing can be set. `signed_downloads`:
        callers get artefacts from the store itself. `outputs_kept_seconds`: how long outputs are kept that may come
        later than their run ends; None: none does.
        """
        self.store = store
        self.blobs = blobs
        self.signals = signals
        self.clock = clock
        self.searches: Searches = searches or store.searches
        self.hint_publisher = hint_publisher
        self.near_seconds = near_seconds
        self.runs_kept_seconds = runs_kept_seconds
        self.dead_letter_seconds = dead_letter_seconds
        self.tracer = tracer
        self.sandboxes = sandboxes
        self.sealer = sealer
        self.signed_downloads = signed_downloads
        self.outputs_kept_seconds = outputs_kept_seconds
        self.time = StoreTime(store, clock)
        self.namespaces = NamespaceStates(store, clock)
        self.executors = ActiveExecutors(store, clock, self.time)
        self.floors = IsolationFloors(store, clock)

    async def surely(self, write: Callable[[], Awaitable[T]]) -> T:
        """Repeat a write whose outcome is unknown. Raises `InDoubt` if it stays unknown."""
        return await surely(write, self.clock)

    async def job(self, who: Principal, job_id: UUID) -> JobRow:
        """One job of the caller's namespace. Raises `NotFound`, also for one that the call may not be about."""
        row = await self.store.jobs.get(who.namespace, job_id)
        if row is None or not matches(row.labels, who.within):
            raise JobNotFound(f"there is no job {job_id} in the namespace {who.namespace}", job_id=job_id)
        return row

    async def run(self, who: Principal, run_id: UUID) -> RunRow:
        """One run of the caller's namespace. Raises `NotFound`, also for one of a job that the call may not be
        about."""
        row = await self.store.runs.get(who.namespace, run_id)
        if row is None or not await self.is_about(who, row.job_id):
            raise NotFound(f"there is no run {run_id} in the namespace {who.namespace}")
        return row

    async def is_about(self, who: Principal, job_id: UUID) -> bool:
        """Check whether the call may be about a job. One that is gone has no labels: it is nobody's whose permission
        goes by labels."""
        if who.within is None:
            return True
        job = await self.store.jobs.get(who.namespace, job_id)
        return job is not None and matches(job.labels, who.within)
