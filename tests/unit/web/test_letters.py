"""Dead letters on pages: a button decides what it says, in the list and at the run."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.support.scene import SHELL
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Began, ClaimRequest
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import executor, outcome


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


async def _waiting(rig: Rig, clock: ShiftedClock) -> str:
    """A run that failed and waits for a person."""
    body = {"name": "books", "schedule_type": "ON_DEMAND", "max_retries": 0, "task": SHELL}
    job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
    await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})
    store = rig.here.store
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor("one"))
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=5, ahead_seconds=1
    )
    [claim] = await store.attempts.claim(request)
    await store.attempts.finish(number, [outcome(claim, RunState.FAILED, reason="exit_code", error="no money")])
    return str(claim.run_id)


async def test_a_dead_letter_is_discarded_on_the_page_of_its_run() -> None:
    """Where its reason stands: with a note, and back to the same page, which says so and offers it no more."""
    clock = ShiftedClock()
    async with pages(clock=clock) as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        run = await _waiting(rig, clock)
        before = Markup((await browser.get(f"/runs/{run}")).text)
        [form] = [
            each["action"] for each in before.named("form") if each.get("action", "").split("?")[0].endswith("/discard")
        ]
        answer = await browser.post(form, {"note": "paid by hand"})
        assert (303, f"/runs/{run}") == (answer.status_code, answer.headers["location"])
        after = (await browser.get(f"/runs/{run}")).text
        assert "Its dead letter was discarded by ada." in after
        assert "/discard" not in after
        found = (await rig.here.client.get(f"{API}/dead-letters/{run}")).json()
        assert ("discarded", "paid by hand") == (found["status"], found["note"])


async def test_who_may_only_read_is_offered_no_decision() -> None:
    clock = ShiftedClock()
    async with pages(clock=clock) as rig:
        browser = await rig.signed_in("vera", ("viewer", "default"))
        shown = (await browser.get(f"/runs/{await _waiting(rig, clock)}")).text
        assert "/discard" not in shown
