"""A storm on PostgreSQL, through the services that people use: a channel and a rule, two thousand failures, a real
receiver. A message at once, and one with the count of the rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.receivers import Receiver, receiver
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.senders.http_delivery import HttpDelivery
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.messages import notice_text
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.ports.store import ClaimRequest, Retention
from tickwise.roles.scheduler.alerting import LOOK_SECONDS, Alerting
from tickwise.roles.scheduler.notice_delivery import NoticeDelivery
from tickwise.testing.factories import executor, outcome

FAILURES = 2_000
OF_ONE_NAME = 500
KEPT = Retention(runs_seconds=1e6, failed_seconds=1e6)
SOON = "UPDATE tickwise.notices SET due = tickwise.now() WHERE state = 'waiting' AND sender IS NULL"


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    """An API on an empty database."""
    await upgrade(database_url)
    async with world(store=PostgresStore(database_url, clock=SystemClock())) as made:
        await made.store.upkeep.maintain(KEPT)
        yield made


async def post(here: World, path: str, body: Any, status: int = 201) -> Any:
    """The answer."""
    answer = await here.client.post(API + path, json=body)
    assert status == answer.status_code, answer.text
    return answer.json()


async def submitted(here: World) -> None:
    """Jobs that run at once; a quarter of them has one name."""
    for begin in range(0, FAILURES, 500):
        jobs = [
            {
                "name": "resize" if number < OF_ONE_NAME else f"job {number}",
                "schedule_type": "IMMEDIATE",
                "task": {"kind": "shell", "command": "false"},
                "max_retries": 0,
            }
            for number in range(begin, begin + 500)
        ]
        made = await post(here, "/jobs:batch", jobs, 200)
        assert (500, 0) == (made["created"], made["refused"])


async def failed(here: World, number: int) -> None:
    """So many of the runs that wait end FAILED, on record as an executor writes it."""
    holder = await here.store.executors.join(executor(lease_seconds=1e6, labels=("task:shell",)))
    asked = ClaimRequest(executor=holder, queues=("default",), labels=("task:shell",), limit=number, ahead_seconds=0.0)
    claims = await here.store.attempts.claim(asked)
    assert number == len(claims)
    ends = [outcome(each, RunState.FAILED, reason="exit_code", error="exit code 1") for each in claims]
    assert [] == list(await here.store.attempts.finish(holder, ends))


async def told(delivery: NoticeDelivery, at: Receiver) -> list[tuple[int, int]]:
    """What is due is delivered: the events and the jobs of each message so far."""
    await delivery.step()
    await delivery.finish()
    data = [json.loads(each.body)["data"] for each in at.got]
    return [(each["count"], each["subjects"]) for each in data]


async def test_two_thousand_failures_are_one_message_at_once_and_one_with_the_rest(
    here: World, database_url: str
) -> None:
    """Each failure is counted in one message, each job too; those of one name have one alert."""
    async with receiver() as at:
        await post(here, "/channels", {"name": "ops", "kind": "webhook", "url": at.url, "allow_private": True})
        await post(here, "/notification-rules", {"name": "all", "on": ["failure"], "channels": ["ops"]})
        await submitted(here)
        clock = SystemClock()
        delivery = NoticeDelivery(
            here.store.notices,
            here.store.channels,
            {NoticeChannelKind.WEBHOOK: WebhookSender(HttpDelivery())},
            words=notice_text,
            now=here.store.now,
            clock=clock,
            name="one",
            sealer=here.control.context.sealer,
        )
        alerting = Alerting(here.store, clock, is_due=delivery.wake.set)
        await failed(here, 300)
        while await alerting.step() < LOOK_SECONDS:
            pass
        assert delivery.wake.is_set()
        first = await told(delivery, at)
        assert [(300, 300)] == first
        for number in (1_000, 700):
            await failed(here, number)
            while await alerting.step() < LOOK_SECONDS:
                pass
            assert first == await told(delivery, at)
        connection = await asyncpg.connect(database_url)
        await connection.execute(SOON)
        whole = await told(delivery, at)
        await delivery.close()
        alerts = await connection.fetch("SELECT subject_name, events FROM tickwise.alerts")
        await connection.close()
    assert [*first, (1_700, 1_700)] == whole
    assert FAILURES == sum(row["events"] for row in alerts)
    names = Counter(row["subject_name"] for row in alerts)
    assert FAILURES - OF_ONE_NAME == sum(count for name, count in names.items() if name != "resize")
    assert names["resize"] <= 3
