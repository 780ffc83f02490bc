"""`/livez`, `/readyz`, `/healthz`, `/metrics`: liveness, readiness, the health of each part, and figures.

Ready means that the store answers (with buffered ingest: that the broker does, which takes what is submitted), that
schedulers keep up, and that somebody is there to run what is due. A run that waits although executors are active makes
nothing unready: it may need a function, a label or a queue that nobody has, and one such run must not take the whole
service away from everybody, who could not even look at it or cancel it. It says itself what it waits for (`warnings`),
and `/metrics` say how long the oldest has waited.

`/healthz` is for people and their monitors, not for load balancers: it says how each part is, as far as this process
can tell. Why is for callers with a key alone, for the sentences count what is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.problems import NotReady
from tickwise.api.role_health import details_of, http_status_of, summary_of
from tickwise.api.wire import Health, HealthDetails, HealthSummary
from tickwise.control.access import holds_everywhere
from tickwise.control.control import Control
from tickwise.domain.errors import Forbidden, StoreUnavailable, Unavailable
from tickwise.domain.permissions import Permission
from tickwise.observability.freshness import METRICS_FRESH_SECONDS, Fresh
from tickwise.observability.waits import answered
from tickwise.ports.clock import Clock
from tickwise.ports.store import StoreStats
from tickwise.roles.shared.health import HealthCheck, HealthSources

RETRY_SECONDS: Final = 5.0
STATS_FRESH_SECONDS: Final = 1.0
"""Readiness is open to all clients, so frequent requests must not load the store."""
TOLD_SECONDS: Final = 2.0
"""The longest wait for a store that has said why it does not answer: for a keeper it may be tried for longer."""
MAX_STATS_SECONDS: Final = 5.0
"""A load balancer gives up soon, and a frozen store gives no answer at all."""


_READY: Final = (
    "503 if the store cannot be reached (with buffered ingest: if the broker cannot); if a timer is late by more "
    "than a minute (no scheduler keeps up); or if a run is late by more than a minute and no executor is active. "
    "Runs that wait while executors are active are a backlog, or need something that no executor offers: this server "
    "can still take requests. Such a run has an entry in its `warnings`, and `/metrics` shows the wait of the "
    "oldest. No key; it looks at the store once a second at most."
)


_HEALTH: Final = (
    "`ok`, `degraded` (it works, and somebody should look) or `failing` (work does not get done) for each part that "
    "there is: `store`, `broker`, `signals`, `schedulers`, `executors`, `oldest_ready` (the run that waits longest), "
    "`timers`, `invariants` (the last pass of a scheduler), `blobs` (the disk of scripts and outputs). 503 if one is "
    "failing. As this process sees them, once a second at most. No key; `/healthz/details` says why."
)


class LateWork(NotReady):
    """Due runs wait too long."""

    code = "work_is_late"


class HealthRoutes:
    """The three, sharing one look at the store."""

    def __init__(
        self,
        control: Control,
        clock: Clock,
        *,
        late_limit_seconds: float,
        metrics: Callable[[StoreStats | None], bytes],
        metrics_media: str,
        accepts: Callable[[], None] | None = None,
        health: HealthCheck | None = None,
    ) -> None:
        """`accepts`: for a server whose submits go to a broker. It raises `Unavailable` if that is away; else the
        server is ready without the store, too: who submits is served, and who reads is told by each answer. `health`
        knows how the parts are; None: they are judged by the store alone."""
        self._late_limit_seconds = late_limit_seconds
        self._render = metrics
        self._metrics_media = metrics_media.encode()
        self._accepts = accepts
        self._stats_of = control.cluster.stats
        self._seen = Fresh(self._look, clock, STATS_FRESH_SECONDS)
        self._text = Fresh(self._rendered, clock, METRICS_FRESH_SECONDS)
        self._health = health or HealthCheck(HealthSources(stats=control.cluster.stats), clock)

    async def live(self, _call: Call) -> Reply:
        """The process answers."""
        return answer(200, Health(status="alive"))

    async def ready(self, _call: Call) -> Reply:
        """The store answers, timers fire in time, and an executor can run each due run."""
        if self._accepts is not None:
            self._accepts()
        try:
            stats = await self._stats()
        except StoreUnavailable:
            if self._accepts is None:
                raise
            return answer(200, Health(status="ready"))
        late = None
        if stats.timers_late_seconds > self._late_limit_seconds:
            late = f"the oldest timer is late by {stats.timers_late_seconds:.0f} s; are there schedulers enough?"
        elif stats.executors == 0 and stats.oldest_ready_seconds > self._late_limit_seconds:
            late = f"the oldest run is late by {stats.oldest_ready_seconds:.0f} s, and no executor is active; start one"
        if late is not None:
            raise LateWork(late, retry_after_seconds=RETRY_SECONDS)
        return answer(200, Health(status="ready"))

    async def health(self, _call: Call) -> Reply:
        """The status of each part, for anybody."""
        report = await self._health.report()
        return answer(http_status_of(report), summary_of(report))

    async def health_details(self, call: Call) -> Reply:
        """The status of each part, with its reason. Raises `Forbidden`."""
        if not holds_everywhere(call.principal, Permission.METRICS_READ):
            raise Forbidden(
                "the sentences count the runs of all namespaces: ask with a key that has metrics:read in all of them, "
                "namespaces: *; /healthz says to anybody how each part is"
            )
        report = await self._health.report()
        return answer(200, details_of(report))

    async def metrics(self, call: Call) -> Reply:
        """The metrics for Prometheus. Without the store they are the counts of this process. Raises `Forbidden`."""
        if not holds_everywhere(call.principal, Permission.METRICS_READ):
            raise Forbidden(
                "the metrics count the jobs and runs of all namespaces: ask with a key that has metrics:read in all of "
                "them, namespaces: *"
            )
        return Reply(200, await self._text.get(), [], self._metrics_media)

    async def _rendered(self) -> bytes:
        try:
            stats = await self._stats()
        except Unavailable:
            stats = None
        return self._render(stats)

    async def _stats(self) -> StoreStats:
        """No older than a second. Raises `StoreUnavailable`, also if the store says nothing in time."""
        return await self._seen.get()

    async def _look(self) -> StoreStats:
        return await answered(self._stats_of, TOLD_SECONDS, silent_seconds=MAX_STATS_SECONDS)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints of health, as they are served."""
        return (
            Endpoint(
                method="GET", path="/livez", name="live", tag="health", everywhere=True,
                summary="The process answers.", handler=self.live, answers=(Health,),
            ),
            Endpoint(
                method="GET", path="/readyz", name="ready", tag="health", everywhere=True,
                summary="The store answers, and due work is not late.",
                description=_READY,
                handler=self.ready, answers=(Health,), refuses=(503,),
            ),
            Endpoint(
                method="GET", path="/healthz", name="health", tag="health", everywhere=True,
                summary="The health of each part of the installation.",
                description=_HEALTH,
                handler=self.health, answers=(HealthSummary,), also={503: (HealthSummary,)},
            ),
            Endpoint(
                method="GET", path="/healthz/details", permissions=(Permission.METRICS_READ,), name="healthDetails",
                tag="health", everywhere=True,
                summary="The health of each part of the installation, and why.",
                description="As `/healthz`, with a sentence for each part; 200 also if one is failing. The permission "
                "must hold in all namespaces.",
                handler=self.health_details, answers=(HealthDetails,),
            ),
            Endpoint(
                method="GET", path="/metrics", permissions=(Permission.METRICS_READ,), name="metrics", tag="health",
                everywhere=True,
                summary="Metrics in the text format of Prometheus.",
                description="They count the jobs and runs of all namespaces: the permission must hold in all of them. "
                "Rendered once a second at most, so an answer may be one second old.",
                handler=self.metrics, answer_media=("text/plain",),
            ),
        )  # fmt: skip
