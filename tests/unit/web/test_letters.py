"""The page of dead letters: a button decides what it says."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.app import API
from tests.support.pages import Markup, pages
from tests.support.scene import SHELL
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Began, ClaimRequest
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import executor


@pytest.mark.parametrize(("button", "outcome"), [(0, "succeeded"), (1, "failed")])
async def test_an_unknown_outcome_is_decided_by_a_button(button: int, outcome: str) -> None:
    clock = ShiftedClock()
    async with pages(clock=clock) as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        store = rig.here.store
        body = {"name": "pays", "schedule_type": "ON_DEMAND", "task": SHELL}
        job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
        await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})
        row = await store.jobs.get("default", UUID(job))
        assert row is not None
        number = await store.executors.join(executor("one", lease_seconds=10))
        request = ClaimRequest(
            executor=number, queues=["default"], labels=list(row.lane.requires), limit=5, ahead_seconds=1
        )
        [claim] = await store.attempts.claim(request)
        await store.attempts.start(number, [Began(claim.run_id, claim.token, clock.now(), OnUnknown.HOLD)])
        clock.shift(11)
        assert [claim.run_id] == list((await store.executors.expire(3)).unknown)
        shown = Markup((await browser.get("/dead-letters")).text)
        buttons = [each for each in shown.named("button") if each.get("name") == "outcome"]
        said = {"outcome": buttons[button]["value"]}
        answer = await browser.post(f"/dead-letters/{claim.run_id}/decide", said)
        assert 303 == answer.status_code, answer.text
        found = (await rig.here.client.get(f"{API}/dead-letters/{claim.run_id}")).json()
        assert ("decided", outcome) == (found["status"], found["outcome"])
