"""The findings of `tickwise doctor` on what any store holds (its time, lost writes, executors, what is late), and on
roles that run apart: broker, recorders, Redis, the replica for searches. Nothing is made or changed by looking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import TickwiseError
from tickwise.ports.clock import Clock
from tickwise.ports.store import Epoch, EpochCause, ExecutorRow
from tickwise.roles.shared.membership import RoleFacts, active_roles
from tickwise.wiring.link import is_sqs, make_broker

LATE_SECONDS: Final = 60.0
"""A run that waits longer is reported."""
RECENT_SECONDS: Final = 7 * 86_400.0
"""A failover that lost something is worth a warning for so long."""
PAGE: Final = "docs/how-to/failover-and-restore.md"
WORDS: Final = {
    EpochCause.PROMOTED: "a standby took over",
    EpochCause.RESTORED: "a backup was restored",
    EpochCause.WENT_BACK: "the database went back in time",
    EpochCause.TOLD: "an operator said that a backup was restored",
}
REQUESTS_LATE_SECONDS: Final = 30.0
"""Recorders of requests tell once a second how far they are."""


SKEW_SECONDS: Final = 1.0
"""Due-ness is the store's to judge, so a skewed clock breaks nothing; it makes logs hard to read."""


class DoctorFinding(NamedTuple):
    """One line of the report."""

    name: str
    level: str
    """`ok`, `warning` or `error`."""
    detail: str
    advice: str = ""


# ---------------------------------------------------------------------------------------------- any store


async def store_findings(store: Any, clock: Clock) -> AsyncIterator[DoctorFinding]:
    """The findings on a store that is open. Raises `StoreUnavailable`."""
    skew = await store.now() - clock.now()
    if abs(skew) > SKEW_SECONDS:
        yield DoctorFinding("clock", "warning", f"this machine is {-skew:+.1f} s off the database", "run an NTP client")
    else:
        yield DoctorFinding("clock", "ok", f"within {SKEW_SECONDS:.0f} s of the database")
    executors = [row for row in await store.executors.all() if row.gone_at is None]
    async for finding in _continuity(store, executors):
        yield finding
    yield _executors(executors, await store.now())
    stats = await store.upkeep.stats()
    if stats.timers_late_seconds > LATE_SECONDS:
        late = f"the oldest timer is {stats.timers_late_seconds:.0f} s late"
        yield DoctorFinding("lateness", "error", late, "start a scheduler, or look at the logs of those that run")
    elif stats.oldest_ready_seconds > LATE_SECONDS:
        waits = f"the oldest of {stats.queued} queued runs waits for {stats.oldest_ready_seconds:.0f} s"
        advice = (
            "start executors, or ones that meet its requirements: `tickwise runs show` gives the reason of its wait"
        )
        yield DoctorFinding("lateness", "warning", waits, advice)
    else:
        yield DoctorFinding("lateness", "ok", f"{stats.queued} queued, {stats.timers} timers, none overdue")


def _executors(executors: Sequence[ExecutorRow], now: float) -> DoctorFinding:
    """The executors whose leases run. A lease that ended stays on record until a scheduler expires it, as after the
    restore of a backup that holds it."""
    ends = [row.lease_until for row in executors]
    alive = sum(end > now for end in ends)
    if alive:
        return DoctorFinding("executors", "ok", f"{alive} alive")
    if not ends:
        return DoctorFinding("executors", "warning", "none is alive: nothing will run", "start one: tickwise executor")
    return DoctorFinding(
        "executors", "warning", f"none is alive: the last lease ended {now - max(ends):.0f} s ago",
        "start one: tickwise executor; where the store was away, those that run are back within seconds",
    )  # fmt: skip


async def _continuity(store: Any, executors: Sequence[ExecutorRow]) -> AsyncIterator[DoctorFinding]:
    """The findings about lost writes: the store lost acknowledged writes, or executors hold newer results than the
    store."""
    epoch, now = (await store.epochs.all())[0], await store.now()
    if epoch.cause is EpochCause.FIRST and epoch.differed:
        yield DoctorFinding(
            "continuity", "warning",
            f"executors knew better of {epoch.differed} runs than the database, and put them right: it has lost "
            "acknowledged writes",
            f"was it restored or set back? `tickwise db restored`, then {PAGE}",
        )  # fmt: skip
    elif epoch.cause is EpochCause.FIRST:
        yield DoctorFinding("continuity", "ok", "nothing says that the database was ever set back")
    else:
        yield _of_epoch(epoch, now)
    differing = [row for row in executors if row.differs]
    if differing:
        runs, since = sum(row.differs for row in differing), min(row.differing_since or now for row in differing)
        yield DoctorFinding(
            "held runs", "error",
            f"{runs} runs are held otherwise than the database says, by the word of {len(differing)} executors, since "
            f"{written(since)}",
            f"executors put it right within seconds; if it lasts, restart them ({PAGE})",
        )  # fmt: skip


def _of_epoch(epoch: Epoch, now: float) -> DoctorFinding:
    text = f"{WORDS.get(epoch.cause, epoch.cause)} at {written(epoch.began_at)}: epoch {epoch.epoch}"
    if epoch.timeline is not None:
        text += f", timeline {epoch.timeline}"
    if not epoch.lost_writes:
        return DoctorFinding("continuity", "ok", f"{text}; no loss was noticed")
    text += f"; acknowledged writes were lost, {epoch.differed} runs differed and were put right"
    if now - epoch.began_at > RECENT_SECONDS:
        return DoctorFinding("continuity", "ok", text)
    return DoctorFinding(
        "continuity", "warning", text, f"compare the answers that clients received before that: {PAGE}"
    )


def written(instant: float) -> str:
    """A time in RFC 3339, in seconds, in UTC."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")


# ---------------------------------------------------------------------------------------------- roles apart


async def findings_apart(settings: Settings, store: Any) -> AsyncIterator[DoctorFinding]:
    """Check each server that the settings name beside the database; `store` is open."""
    if settings.broker_url is not None:
        yield await _broker(settings.broker_url, store)
        if settings.ingest == "buffered":
            yield await _recorders(settings.broker_url, store)
            if not settings.requests_keys:
                yield DoctorFinding(
                    "signatures",
                    "warning",
                    "requests are not signed: a client that can write their topic can act as any key",
                    "set TICKWISE_REQUESTS_KEYS for APIs and recorders (openssl rand -hex 32)",
                )
    if settings.signals_url is not None:
        yield await _signals(settings.signals_url, store.upkeep.cluster_id)
    if settings.search_database_url is not None:
        for address in settings.search_database_url.split():
            yield await _replica(address)


async def _broker(url: str, store: Any) -> DoctorFinding:
    topics, other = ("queues", "sqs://REGION/OTHER") if is_sqs(url) else ("topics", "kafka://…?prefix=other")
    try:
        found = await _inspected(url)
    except TickwiseError as failure:
        whose = "that SQS and its credentials are there" if is_sqs(url) else "that Kafka runs"
        return DoctorFinding("broker", "error", failure.detail, f"check TICKWISE_BROKER_URL, and {whose}")
    cluster = store.upkeep.cluster_id
    if found.owner not in (None, cluster):
        return DoctorFinding(
            "broker", "error", f"its {topics} belong to the store {found.owner}, and this one is {cluster}",
            f"choose another prefix: {other}",
        )  # fmt: skip
    if found.owner is None:
        return DoctorFinding("broker", "ok", f"it answers; the {topics} are made by the first role that starts")
    if found.missing:
        return DoctorFinding(
            "broker", "warning", f"it lacks {', '.join(found.missing)}", "roles that run make them again within seconds"
        )
    return DoctorFinding("broker", "ok", f"it answers, and the {topics} are this store's")


async def _inspected(url: str) -> Any:
    """The answer of `inspect_topics` or `inspect_queues`."""
    if is_sqs(url):
        from tickwise.adapters.broker.sqs.inspection import inspect_queues

        return await inspect_queues(url)
    from tickwise.adapters.broker.kafka import inspect_topics

    return await asyncio.to_thread(inspect_topics, url)


async def _recorders(url: str, store: Any) -> DoctorFinding:
    """Recorders put a mark into the store as they go: the age of the oldest mark shows whether requests are applied."""
    from tickwise.ports.broker import REQUESTS
    from tickwise.ports.store import MarkedChannel, earliest_mark

    # Nothing is connected: how many partitions there are to be is in the address.
    partitions = make_broker(url, SystemClock()).partitions(REQUESTS)
    marked = earliest_mark(await store.marks.get(MarkedChannel.REQUESTS, range(partitions)), partitions)
    if marked is None:
        return DoctorFinding(
            "recorders", "warning", "none has applied requests yet", "start one: tickwise recorder --serve requests"
        )
    behind = await store.now() - marked
    if behind > REQUESTS_LATE_SECONDS:
        return DoctorFinding(
            "recorders", "error", f"requests accepted in the last {behind:.0f} s are not applied yet",
            "start a recorder: tickwise recorder --serve requests; the lag is the metric tickwise_broker_lag",
        )  # fmt: skip
    return DoctorFinding("recorders", "ok", f"requests are applied up to {max(behind, 0.0):.0f} s ago")


async def signals_beside_cassandra(settings: Settings) -> DoctorFinding:
    """The Redis that roles need on Cassandra: on PostgreSQL they can call each other through the database."""
    if settings.signals_url is None:
        return DoctorFinding(
            "signals", "warning", "no Redis is named, and on Cassandra no role but a keeper starts without one",
            "set TICKWISE_SIGNALS_URL=redis://host:port/0",
        )  # fmt: skip
    return await _signals(settings.signals_url, "doctor")


async def _signals(url: str, cluster_id: str) -> DoctorFinding:
    if not url.startswith(("redis:", "rediss:")):
        return DoctorFinding("signals", "ok", "they go through another address of PostgreSQL")
    try:
        from tickwise.adapters.signals.redis import RedisLink
        from tickwise.adapters.signals.redis.link import AWAY
    except ImportError:
        return DoctorFinding(
            "signals", "error", "the client of Redis is not installed", "pip install 'tickwise[redis]'"
        )
    try:
        link = RedisLink(url, cluster_id, SystemClock())
    except TickwiseError as wrong:
        return DoctorFinding("signals", "error", wrong.detail)
    try:
        await link.ask("PING")
    except AWAY as failure:
        return DoctorFinding(
            "signals", "warning", f"Redis does not answer: {failure}",
            "roles go on without it, a little later each time; check TICKWISE_SIGNALS_URL, and that Redis runs",
        )  # fmt: skip
    finally:
        await link.close()
    return DoctorFinding("signals", "ok", "Redis answers")


async def _replica(url: str) -> DoctorFinding:
    from tickwise.adapters.store.postgres import PostgresStore

    replica = PostgresStore(url, clock=SystemClock(), reads_only=True)
    try:
        await replica.open()
        await replica.now()
    except TickwiseError as failure:
        return DoctorFinding(
            "search replica", "warning", failure.detail, "searches go to the database itself until it is there"
        )
    finally:
        await replica.close()
    return DoctorFinding("search replica", "ok", "it answers")


async def clocks(url: str, store: Any) -> DoctorFinding:
    """The clocks of all processes that told of themselves lately; `url` is where they tell it."""
    try:
        roles = await _active_roles(url, store)
    except TickwiseError as failure:
        return DoctorFinding("other clocks", "warning", failure.detail)
    wrong = {
        each.name: each.clock_ahead_seconds for each in roles if abs(each.clock_ahead_seconds or 0.0) > SKEW_SECONDS
    }
    if wrong:
        shown = ", ".join(f"{name} {ahead:+.1f} s" for name, ahead in sorted(wrong.items()))
        return DoctorFinding(
            "other clocks", "warning", f"off the database: {shown}", "run an NTP client on those machines"
        )
    told = len({each.name for each in roles})
    return DoctorFinding("other clocks", "ok", f"{told} processes, each within {SKEW_SECONDS:.0f} s of the database")


async def _active_roles(url: str, store: Any) -> list[RoleFacts]:
    clock = SystemClock()
    if url.startswith(("redis:", "rediss:")):
        try:
            from tickwise.adapters.signals.redis import RedisLink, RedisSharedState
        except ImportError:
            return []  # the finding of the signals says what is missing
        link = RedisLink(url, store.upkeep.cluster_id, clock)
        try:
            return await active_roles(RedisSharedState(link))
        finally:
            await link.close()
    from tickwise.adapters.signals.postgres import PostgresLink, PostgresSharedState

    asked = PostgresLink(url, clock)
    try:
        return await active_roles(PostgresSharedState(asked))
    finally:
        await asked.close()
