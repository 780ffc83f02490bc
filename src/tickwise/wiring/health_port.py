"""The health port of a process: open from its first moment, so that whoever supervises it sees what it waits for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

from tickwise.api.health import METRICS_FRESH_SECONDS, Fresh, NotReady
from tickwise.api.role_health import create_health_app
from tickwise.config import Settings
from tickwise.domain.errors import BrokerUnavailable, Unavailable
from tickwise.observability.metrics import CONTENT_TYPE, Metrics
from tickwise.ports.broker import Broker
from tickwise.wiring.house import House
from tickwise.wiring.patience import Patience
from tickwise.wiring.serving import address_of, limits_of, listen, serving

HEALTH_CONNECTIONS: Final = 64
"""A supervisor and a few collectors of metrics come here."""

BLOBS_SECONDS: Final = 5.0
"""A write that fails for longer than this is no hiccup."""

Check = Callable[[], Awaitable[None]]


class HealthPort:
    """What is said there; nothing is served without a port."""

    def __init__(self, patience: Patience) -> None:
        self.url: str | None = None
        self._patience = patience
        self._check: Check | None = None
        self._text: Fresh[bytes] | None = None

    def at_work(self, house: House, check: Check) -> None:
        """From now on `check` says whether it can work: it raises if not."""
        self._check = check
        self._text = Fresh(partial(_rendered, house), house.clock, METRICS_FRESH_SECONDS)

    async def check(self) -> None:
        """Raises `Unavailable` with what is missing."""
        if self._check is None:
            raise NotReady(self._patience.awaited)
        await self._check()

    async def render(self) -> bytes:
        """The metrics, with what the store says of itself if it can be asked: once a second at most."""
        return Metrics().render() if self._text is None else await self._text.get()


async def _rendered(house: House) -> bytes:
    try:
        house.metrics.observe_stats(await house.store.stats())
    except Unavailable:
        house.metrics.observe_stats(None)
    return house.metrics.render()


@contextlib.asynccontextmanager
async def health_port(settings: Settings, patience: Patience) -> AsyncIterator[HealthPort]:
    """Served while the block lasts, if the settings name a port."""
    health = HealthPort(patience)
    if settings.health_port is None:
        yield health
        return
    with listen(settings.host, settings.health_port) as sock:
        health.url = address_of(sock)
        limits = replace(limits_of(settings), connections=HEALTH_CONNECTIONS)
        async with serving(create_health_app(health.check, health.render, CONTENT_TYPE), [sock], limits):
            yield health


def check_of(house: House, *, store: bool = True, broker: bool = False, blobs: bool = False) -> Check:
    """Whether what a role cannot do without is there. `blobs`: it stores the output of tasks."""
    return partial(_check, house, store=store, broker=broker, blobs=blobs)


async def _check(house: House, *, store: bool, broker: bool, blobs: bool) -> None:
    if blobs and (failing := getattr(house.blobs, "failing_seconds", 0.0)) > BLOBS_SECONDS:
        raise NotReady(
            f"no output could be stored for {failing:.0f} s, so runs wait at their end; is the disk of the blobs full?"
        )
    if broker and house.broker is not None:
        reachable(house.broker)
    if store:
        await house.store.now()


def reachable(broker: Broker) -> None:
    """Raises `BrokerUnavailable` if it is not, as of the last look."""
    state = broker.state()
    if not state.reachable:
        raise BrokerUnavailable(state.detail or "the broker does not answer")
