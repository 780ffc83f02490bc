"""The broker of a process: made from its address, opened for the store that it serves, watched by the metrics.

A role that cannot work without it waits for it. All others open it beside their work: a broker that is away costs them
latency, from their first moment on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import structlog

from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured, Unavailable
from tickwise.observability.brokers import watched
from tickwise.observability.metrics import Metrics
from tickwise.observability.tasks import end_tasks
from tickwise.ports.broker import Broker
from tickwise.wiring.startup_wait import StartupWait

AGAIN_SECONDS: Final = 1.0
"""The interval of looks for a broker that is away."""

logger = structlog.get_logger("tickwise.wiring")


def given_broker(settings: Settings) -> str:
    """Its address. Raises `Misconfigured` if there is none."""
    if settings.broker_url is None:
        raise Misconfigured(
            "no broker is given, and a recorder has nothing else to read: set TICKWISE_BROKER_URL, such as "
            "kafka://host:9092"
        )
    return settings.broker_url


def make_broker(url: str, clock: SystemClock, blobs_url: str | None = None) -> Broker:
    """Of this address; nothing is connected yet. `blobs_url`: blobs that all roles share, for messages that are too
    large for SQS. Raises `Misconfigured`."""
    # Imported here: an installation without a broker need not have its client.
    if is_sqs(url):
        from tickwise.adapters.blobs import open_blobs
        from tickwise.adapters.broker.sqs import SqsBroker

        return SqsBroker(url, clock, None if blobs_url is None else open_blobs(blobs_url))
    from tickwise.adapters.broker.kafka import KafkaBroker

    return KafkaBroker(url, clock)


def is_sqs(url: str) -> bool:
    """Check whether the address of a broker is that of queues in SQS."""
    return url.startswith("sqs:")


def named_broker(settings: Settings, metrics: Metrics) -> Broker | None:
    """The one that the settings name, if they do; nothing is connected yet. Raises `Misconfigured`: what is wrong with
    its address is wrong before anything is waited for."""
    if settings.broker_url is None:
        return None
    clock = SystemClock()
    return watched(make_broker(settings.broker_url, clock, settings.blobs_url), metrics, clock.monotonic)


@contextlib.asynccontextmanager
async def open_broker(
    broker: Broker | None, *, cluster: str, startup_wait: StartupWait, needed: bool
) -> AsyncIterator[Broker | None]:
    """The broker, opened for the store of this name before (`needed`) or beside what is done with it.

    Raises `Misconfigured`, at the end also for what was found out beside."""
    if broker is None:
        yield None
        return
    clock = SystemClock()
    opening: asyncio.Task[None] | None = None
    try:
        if needed:
            await startup_wait.until("broker", lambda: broker.open(cluster))
        else:
            opening = asyncio.create_task(
                _open_beside(broker, cluster, clock, startup_wait.stop), name="open the broker"
            )
        yield broker
    finally:
        if opening is not None:
            await end_tasks([opening])
        await broker.close()
    if opening is not None and not opening.cancelled():
        opening.result()


async def _open_beside(broker: Broker, cluster: str, clock: SystemClock, stop: asyncio.Event) -> None:
    """Open the broker, however long that takes. A fault that an operator must repair ends the process: hints that reach
    another cluster's executors, or none, are no passing outage."""
    told = False
    while True:
        try:
            await broker.open(cluster)
        except Unavailable as away:
            if not told:
                told = True
                logger.warning("broker_away", detail=away.detail)
            await clock.sleep(AGAIN_SECONDS)
        except Misconfigured as wrong:
            logger.critical("broker_refused", detail=wrong.detail)
            stop.set()
            raise
        except Exception:
            # A fault of ours, or of a library: the process works without a broker, and goes on to try.
            logger.exception("broker_unopened")
            await clock.sleep(AGAIN_SECONDS)
        else:
            if told:
                logger.info("broker_back")
            return
