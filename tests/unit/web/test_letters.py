"""Dead letters on pages: a button decides what it says, in the list and at the run."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.support.scene import SHELL
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Began, ClaimRequest
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import executor, outcome


async def _claimed(rig: Rig, **fields: object) -> tuple[int, Claimed]:
    """A run of a new job, and the executor that holds it for ten seconds."""
    body = {"name": "pays", "schedule_type": "ON_DEMAND", "task": SHELL, **fields}
    job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
    await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})
    store = rig.here.store
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor("one", lease_seconds=10))
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=5, ahead_seconds=1
    )
    [claim] = await store.attempts.claim(request)
    return number, claim


@pytest.mark.parametrize("place", ["list", "run"])
@pytest.mark.parametrize(("button", "outcome"), [(0, "succeeded"), (1, "failed")])
async def test_an_unknown_outcome_is_decided_by_a_button(button: int, outcome: str, place: str) -> None:
    """In the list, and on the page of the run; either is shown again."""
    clock = ShiftedClock()
    async with pages(clock=clock) as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        store = rig.here.store
        number, claim = await _claimed(rig)
        await store.attempts.start(number, [Began(claim.run_id, claim.token, clock.now(), OnUnknown.HOLD)])
        clock.shift(11)
        assert [claim.run_id] == list((await store.executors.expire(3)).unknown)
        page = "/dead-letters" if place == "list" else f"/runs/{claim.run_id}"
        shown = Markup((await browser.get(page)).text)
        buttons = [each for each in shown.named("button") if each.get("name") == "outcome"]
        [form] = [each["action"] for each in shown.named("form") if "/decide" in each.get("action", "")]
        answer = await browser.post(form, {"outcome": buttons[button]["value"]})
        assert (303, page) == (answer.status_code, answer.headers["location"]), answer.text
        found = (await rig.here.client.get(f"{API}/dead-letters/{claim.run_id}")).json()
        assert ("decided", outcome) == (found["status"], found["outcome"])


async def _waiting(rig: Rig) -> str:
    """A run that failed and waits for a person."""
    number, claim = await _claimed(rig, max_retries=0)
    ended = outcome(claim, RunState.FAILED, reason="exit_code", error="no money")
    await rig.here.store.attempts.finish(number, [ended])
    return str(claim.run_id)


async def test_a_dead_letter_is_discarded_on_the_page_of_its_run() -> None:
    """Where its reason stands: with a note, and back to the same page, which says so and offers it no more."""
    async with pages() as rig:
        browser = await rig.signed_in("ada", ("operator", "default"))
        run = await _waiting(rig)
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
    async with pages() as rig:
        browser = await rig.signed_in("vera", ("viewer", "default"))
        shown = (await browser.get(f"/runs/{await _waiting(rig)}")).text
        assert "/discard" not in shown
