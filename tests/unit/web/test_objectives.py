"""Objectives for starts on the pages: at their job, and on the first page."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.unit.web.test_pages import SHELL


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def test_an_objective_stands_at_its_job_and_on_the_first_page(rig: Rig) -> None:
    """With its share, its time and its budget; a job without one has no such part."""
    body = {"name": "bills", "every": "1h", "task": SHELL}
    plain = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
    said = {**body, "objective_start_seconds": 30, "objective_ratio": 0.995}
    job = (await rig.here.client.post(f"{API}/jobs", json=said)).json()["job_id"]
    browser = await rig.signed_in("looks", ("admin", "*"))
    page = Markup((await browser.get(f"/jobs/{job}")).text).words
    assert "99.5 % of the runs begin within 30 s of their due time." in page
    assert "nothing was due" in page
    assert "Objective for starts" not in Markup((await browser.get(f"/jobs/{plain}")).text).words
    first = Markup((await browser.get("/")).text).words
    assert "Objectives for starts" in first
    assert "99.5 % within 30 s: 0 of 0 runs late, budget left 100 %" in first
