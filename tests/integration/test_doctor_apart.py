"""What `tickwise doctor` says of a real Kafka and a real Redis, and that it makes nothing there by looking."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator

import msgspec
import pytest

from tickwise.adapters.broker.kafka import KafkaBroker, inspect_topics
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.postgres import PostgresLink, PostgresSharedState
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.postgres import upgrade
from tickwise.config import Settings
from tickwise.ports.shared_state import Note
from tickwise.ports.store import MarkedChannel
from tickwise.roles.shared.membership import KIND, RoleFacts
from tickwise.wiring.findings import DoctorFinding, clocks, findings_apart, signals_beside_cassandra


async def found(settings: Settings, store: MemoryStore) -> dict[str, DoctorFinding]:
    return {finding.name: finding async for finding in findings_apart(settings, store)}


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made.getsockname()[1]


async def test_topics_are_looked_at_and_not_made(kafka_prefix_url: str) -> None:
    """Before anything has started all is well, and stays as it was; then they are this store's, and no other's."""
    clock = SystemClock()
    store, other = MemoryStore(clock), MemoryStore(clock)
    settings = Settings(broker_url=f"{kafka_prefix_url}&lanes=1&partitions=1", ingest="buffered")
    assert settings.broker_url is not None
    first = await found(settings, store)
    assert ("ok", "it answers; the topics are made by the first role that starts") == first["broker"][1:3]
    assert 4 == len(inspect_topics(settings.broker_url).missing)
    broker = KafkaBroker(settings.broker_url, clock)
    try:
        await broker.open(store.upkeep.cluster_id)
    finally:
        await broker.close()
    assert ("ok", "it answers, and the topics are this store's") == (await found(settings, store))["broker"][1:3]
    strange = (await found(settings, other))["broker"]
    assert "error" == strange.level
    assert store.upkeep.cluster_id in strange.detail


async def test_recorders_that_keep_up_are_told_from_those_that_do_not(kafka_prefix_url: str) -> None:
    """By how far they say that requests are applied."""
    store = MemoryStore(SystemClock())
    settings = Settings(broker_url=f"{kafka_prefix_url}&lanes=1&partitions=2", ingest="buffered")
    levels = []
    for behind in (None, 600.0, 1.0):
        if behind is not None:
            now = await store.now()
            await store.marks.put(MarkedChannel.REQUESTS, {0: now - behind, 1: now - behind / 2})
        levels.append((await found(settings, store))["recorders"].level)
    assert ["warning", "error", "ok"] == levels


async def test_requests_that_nobody_signs_are_told(nobody: int) -> None:
    """Where they go through a broker; with a secret there is nothing to say."""
    store = MemoryStore(SystemClock())
    unsigned = Settings(broker_url=f"kafka://127.0.0.1:{nobody}", ingest="buffered")
    assert "TICKWISE_REQUESTS_KEYS" in (await found(unsigned, store))["signatures"].advice
    signed = dataclasses.replace(unsigned, requests_keys=("3b7e09f1c2d84a65b0e7f31c9d5a2846",))
    assert "signatures" not in await found(signed, store)


async def test_redis_is_asked(redis_url: str, nobody: int) -> None:
    """An absent one is no error: everything goes on without it."""
    store = MemoryStore(SystemClock())
    assert "ok" == (await found(Settings(signals_url=redis_url), store))["signals"].level
    away = (await found(Settings(signals_url=f"redis://127.0.0.1:{nobody}/0"), store))["signals"]
    assert "warning" == away.level
    assert "roles go on without it" in away.advice


async def test_an_absent_replica_is_no_error(nobody: int) -> None:
    """Searches have somewhere else to go."""
    settings = Settings(search_database_url=f"postgresql://a:b@127.0.0.1:{nobody}/x")
    assert "warning" == (await found(settings, MemoryStore(SystemClock())))["search replica"].level


async def test_a_clock_of_another_machine_is_named(database_url: str) -> None:
    """As that process told it, through the database."""
    await upgrade(database_url)
    clock = SystemClock()
    store = MemoryStore(clock)
    link = PostgresLink(database_url, clock)
    try:
        for ahead, level in ((0.2, "ok"), (-3.25, "warning")):
            facts = RoleFacts(role="executor", name="far:7", version="1", since=0.0, clock_ahead_seconds=ahead)
            await PostgresSharedState(link).put([Note(KIND, "executor@far:7", msgspec.to_builtins(facts))], 60.0)
            assert level == (await clocks(database_url, store)).level
        assert "far:7 -3.2 s" in (await clocks(database_url, store)).detail
    finally:
        await link.close()


async def test_redis_is_looked_at_beside_cassandra(redis_url: str, nobody: int) -> None:
    """No role but a keeper starts there without it, so a doctor that finds all well has seen it."""
    assert "ok" == (await signals_beside_cassandra(Settings(signals_url=redis_url))).level
    away = await signals_beside_cassandra(Settings(signals_url=f"redis://127.0.0.1:{nobody}/0"))
    assert ("signals", "warning") == (away.name, away.level)
    unset = await signals_beside_cassandra(Settings())
    assert "warning" == unset.level
    assert "TICKWISE_SIGNALS_URL" in unset.advice
