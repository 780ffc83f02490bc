"""A success on PostgreSQL, from the end of its run to a real receiver: only of the jobs that a rule names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.integration.test_notice_storm import KEPT, post
from tests.support.app import World, world
from tests.support.receivers import receiver
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.senders.http_delivery import HttpDelivery
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.messages import notice_text
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.ports.store import ClaimRequest
from tickwise.roles.scheduler.alerting import Alerting
from tickwise.roles.scheduler.notice_delivery import NoticeDelivery
from tickwise.testing.factories import executor, outcome

JOB = {"schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}, "max_retries": 0}


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    """An API on an empty database."""
    await upgrade(database_url)
    async with world(store=PostgresStore(database_url, clock=SystemClock())) as made:
        await made.store.upkeep.maintain(KEPT)
        yield made


async def ended(here: World, job: str, state: RunState = RunState.SUCCESS) -> str:
    """A run of this job, on record as an executor writes its end; its id."""
    run = await post(here, f"/jobs/{job}/runNow", {}, 202)
    holder = await here.store.executors.join(executor(lease_seconds=1e6, labels=("task:shell",)))
    asked = ClaimRequest(executor=holder, queues=("default",), labels=("task:shell",), limit=1, ahead_seconds=0.0)
    [claimed] = await here.store.attempts.claim(asked)
    said = {} if state is RunState.SUCCESS else {"reason": "exit_code", "error": "exit code 1"}
    assert [] == list(await here.store.attempts.finish(holder, [outcome(claimed, state, **said)]))
    return str(run["run_id"])


async def test_a_success_pings_the_address_of_its_job(here: World) -> None:
    """Each time, with the run; a failure and the success of another job do not. No alert stands afterwards."""
    nightly = (await post(here, "/jobs", {**JOB, "name": "nightly"}))["job_id"]
    other = (await post(here, "/jobs", {**JOB, "name": "other"}))["job_id"]
    async with receiver() as at:
        hook = {"name": "beat", "kind": "webhook", "url": f"{at.url}/ping/of-nightly", "allow_private": True}
        await post(here, "/channels", hook)
        rule = {"name": "beat", "on": ["success"], "jobs": ["nightly"], "channels": ["beat"], "group": 0}
        await post(here, "/notification-rules", rule)
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
        first = await ended(here, nightly)
        await ended(here, other)
        await alerting.step()
        assert delivery.wake.is_set()
        await delivery.step()
        await delivery.finish()
        await delivery.close()
        [got] = at.got
        data = json.loads(got.body)["data"]
        assert ("/ping/of-nightly", "[info] nightly succeeded", "info") == (got.path, data["title"], data["severity"])
        [line] = data["events"]
        assert ("success", first, None) == (line["event"], line["run_id"], line["alert_id"])
        await ended(here, nightly, RunState.FAILED)
        await alerting.step()
        await ended(here, other)
        assert [] == list((await here.store.alerts.events(10)).events)
        assert [] == (await here.client.get("/api/v1/alerts")).json()
        assert 1 == len((await here.client.get("/api/v1/notices")).json())
