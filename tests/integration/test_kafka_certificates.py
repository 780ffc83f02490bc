"""A Kafka that lets in whoever has a certificate, and asks for no password."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from tests.services.kafka import Access, Kafka
from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import BrokerUnavailable, Misconfigured
from tickwise.ports.broker import REQUESTS, Message
from tickwise.testing.contracts.broker import CLUSTER, open_patiently


@pytest_asyncio.fixture(scope="module")
async def kafka() -> AsyncIterator[Kafka]:
    """One for the tests of this module."""
    async with Kafka(access=Access(tls=True, client_certificates=True)) as running:
        yield running


@asynccontextmanager
async def client(kafka: Kafka, **options: object) -> AsyncIterator[KafkaBroker]:
    """By the listener that asks; it knows who may have signed the server's certificate."""
    given = {"prefix": "certified", "lanes": 1, "partitions": 1, "tls": "true", "ca": kafka.authority, **options}
    broker = KafkaBroker(f"kafka://{kafka.secure_address}?{urlencode(given)}", SystemClock())
    try:
        yield broker
    finally:
        await broker.close()


async def test_a_client_comes_in_by_its_certificate(kafka: Kafka) -> None:
    """And its messages are taken."""
    certificate, key = kafka.client_certificate
    async with client(kafka, cert=certificate, key=key) as broker:
        await open_patiently(broker)
        await broker.send(REQUESTS, [Message(b"one", b"key")])


async def test_a_client_without_one_stays_outside(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told that all is well."""
    monkeypatch.setattr("tickwise.adapters.broker.kafka.topics.ANSWER_SECONDS", 1.0)  # a refused client asks so long
    async with client(kafka) as broker:
        with pytest.raises((BrokerUnavailable, Misconfigured)):
            await broker.open(CLUSTER)
