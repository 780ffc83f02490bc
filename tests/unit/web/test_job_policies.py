"""The page of a job shows each policy that is not the default, in words; the others stand behind "All fields"."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages

TASK = {"kind": "shell", "command": "true"}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def page_of(rig: Rig, **fields: Any) -> tuple[str, str]:
    """The words of a job's page before "All fields", and those after it."""
    body = {"name": "books", "every": "1h", "task": TASK, **fields}
    made = await rig.here.client.post(f"{API}/jobs", json=body)
    assert 201 == made.status_code, made.text
    browser = await rig.signed_in("reader", ("viewer", "default"))
    words = Markup((await browser.get(f"/jobs/{made.json()['job_id']}")).text).words
    before, found, after = words.partition("All fields")
    assert found, words
    return before, after


async def test_what_a_job_sets_itself_is_shown_in_words(rig: Rig) -> None:
    """Each of its fields, with limits as one sentence."""
    before, after = await page_of(
        rig,
        timeout_seconds=90,
        start_deadline_seconds=600,
        concurrency={"limit": 2, "key": "key:bank"},
        rate={"limit": 5, "per_seconds": 60},
        requires=["zone=eu"],
        overlap="queue_all",
        max_retries=7,
        retry={"deadline_seconds": 3600, "backoff": "fixed"},
        on_unknown="hold",
        misfire={"mode": "skip"},
    )
    for said in (
        "Timeout 1m30s",
        "Start deadline 10m",
        "Concurrency at most 2 runs at once, counted over key:bank",
        "Rate at most 5 starts in 1m of this job",
        "Needs an executor with zone=eu",
        "If an earlier run goes on let all wait",
        "Retries 7",
        "No attempt begins after 1h",
        "Backoff fixed",
        "If its executor is lost in mid-run a person decides",
        "Runs that could not begin in time skip",
    ):
        assert said in before, said
    assert "First delay" not in before, "an object that is stored whole has defaults, too"
    assert "Longest delay 5m" in after


async def test_a_default_stands_behind_all_fields(rig: Rig) -> None:
    """And nowhere else."""
    before, after = await page_of(rig)
    for label in ("Timeout", "Backoff", "If an earlier run goes on", "Start deadline"):
        assert label not in before
        assert label in after
    assert "If an earlier run goes on skip the new one" in after
    assert "Retries 3" in after
    assert "Needs an executor with none" in after
    assert "Calendars and windows none" in after
