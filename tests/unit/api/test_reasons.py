"""A reason is for the people who read it: one without anything to see is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tests.unit.api.test_errors import fails, listed
from tickwise.api.examples import BODIES
from tickwise.api.resources import RESOURCES
from tickwise.control.texts import clean_reason
from tickwise.domain.errors import Invalid

UNSEEN: Final = ("\u200b", " ", "\u2060\ufeff", "\u3164", "\u2800", "\u00ad\u034f", "\u202e\u2066", "\ufe0f", "\t\n")
WITH_WORDS: Final = {
    each.name for each in RESOURCES if each.body and {"reason", "note"} & {*each.body.__struct_fields__}
}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_no_route_takes_a_reason_that_nobody_can_see(here: Scene) -> None:
    """422 at its field, before anything is changed; each route with such a field is asked."""
    run = (await fails(here))[0]
    error = (await listed(here))[0]["error_id"]
    job = await here.create(every="1h")
    there = {"job_id": job, "run_id": run, "error_id": error, "queue": "default", "name": "there", "alert_id": job}
    asked = set()
    for route in RESOURCES:
        if route.body is None or not {"reason", "note"} & {*route.body.__struct_fields__}:
            continue
        asked.add(route.name)
        path = route.path.format(**there)
        example: dict[str, Any] = BODIES[route.body.__name__]
        name = "reason" if "reason" in route.body.__struct_fields__ else "note"
        for text in UNSEEN:
            answer = await here.world.client.request(route.method, path, json={**example, name: text})
            assert (422, f"/{name}") == (answer.status_code, answer.json().get("pointer")), (route.name, text)
    assert WITH_WORDS == asked
    assert {"createStop", "pauseJob", "pauseJobs", "holdQueue", "decideDeadLetter", "ignoreError", "putWindow"} <= asked
    assert not await here.ask("GET", "/stops")


@pytest.mark.parametrize("text", ["x", "é", "数", "🦊", "\u200bx", "!", "-", "0"])
def test_what_can_be_seen_is_a_reason(text: str) -> None:
    """In any script; signs that cannot be seen may stand beside it."""
    assert text == clean_reason(text, "/reason")


@pytest.mark.parametrize("text", UNSEEN)
def test_what_cannot_be_seen_is_none(text: str) -> None:
    """Spaces, marks without a letter, letters without a shape."""
    with pytest.raises(Invalid, match="nothing to see"):
        clean_reason(text, "/reason")


def test_a_reason_may_be_left_out() -> None:
    """Not sent, and sent empty, is the same."""
    assert (None, "") == (clean_reason(None, "/reason"), clean_reason("", "/reason"))


async def test_an_error_that_does_not_exist_is_not_redriven(here: Scene) -> None:
    """404, and no operation is stored: also for a discard and a dry run."""
    some = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"
    for body in ({}, {"dry_run": True}):
        for action in ("redrive", "discard"):
            await here.ask("POST", f"/dead-letters:{action}", 404, {"filter": {"error_id": some}, **body})
    assert not await here.ask("GET", "/operations")
