"""A run that took unusually long, or wrote unusually much, says so on its page and by the API; so does what it used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.unit.web.test_pages import SHELL
from tickwise.domain.observing.usage import NOT_MEASURED, ResourceUsage
from tickwise.ports.store import ClaimRequest
from tickwise.testing.contracts.base import began
from tickwise.testing.factories import executor, outcome


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def ran(rig: Rig, job: str, seconds: float, usage: ResourceUsage = NOT_MEASURED) -> str:
    """A run of the job that succeeded after so long."""
    store = rig.here.store
    run_id = str((await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})).json()["run_id"])
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor(f"one of {run_id}"))
    labels = list(row.lane.requires)
    request = ClaimRequest(executor=number, queues=["default"], labels=labels, limit=50, ahead_seconds=1.0)
    [claimed] = await store.attempts.claim(request)
    end = await store.now()
    ended = [outcome(claimed, started=end - seconds, ended=end)]
    assert [] == list(await store.attempts.finish(number, ended, {claimed.run_id: usage}))
    await rig.here.clock.sleep(0.002)  # runs of one millisecond have no order
    return run_id


async def bills(rig: Rig) -> str:
    """A job that runs on request."""
    body = {"name": "bills", "schedule_type": "ON_DEMAND", "task": SHELL}
    return str((await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"])


@pytest.mark.parametrize(("seconds", "says"), [(2_400.0, True), (240.0, False)])
async def test_a_run_that_took_unusually_long_says_so(rig: Rig, seconds: float, says: bool) -> None:
    """With what is usual."""
    job = await bills(rig)
    for number in range(10):
        await ran(rig, job, 180.0 + 10.0 * number)
    run = await ran(rig, job, seconds)
    browser = await rig.signed_in("looks", ("admin", "*"))
    page = Markup((await browser.get(f"/runs/{run}")).text).words
    assert ("took 40 min, usually 3 min 9 s to 4 min 21 s" in page) is says, page


async def test_an_unusual_output_is_told_by_page_and_api(rig: Rig) -> None:
    """Beside the sizes of earlier outputs; a run before those is as usual."""
    job = await bills(rig)
    first = await ran(rig, job, 2.0, ResourceUsage(output_bytes=9_000_000))
    for number in range(10):
        await ran(rig, job, 2.0, ResourceUsage(output_bytes=10_000 + 200 * number))
    run = await ran(rig, job, 2.0, ResourceUsage(output_bytes=3_200_000))
    browser = await rig.signed_in("looks", ("admin", "*"))
    page = Markup((await browser.get(f"/runs/{run}")).text).words
    assert "wrote 3.2 MB, usually 10.2 kB to 11.8 kB" in page
    found = (await rig.here.client.get(f"{API}/runs/{run}")).json()
    [anomaly] = found["anomalies"]
    assert ("output", "more", 3_200_000.0, 11) == (
        anomaly["quantity"],
        anomaly["kind"],
        anomaly["value"],
        anomaly["runs_compared"],
    )
    assert [] == (await rig.here.client.get(f"{API}/runs/{first}")).json()["anomalies"]


@pytest.mark.parametrize(("seconds", "kinds"), [(4_000.0, ["more"]), (1.0, [])])
async def test_a_run_that_goes_on_too_long_has_an_anomaly(rig: Rig, seconds: float, kinds: list[str]) -> None:
    """But not because it has been quick so far."""
    job = await bills(rig)
    for _ in range(10):
        await ran(rig, job, 600.0)
    store = rig.here.store
    run_id = str((await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})).json()["run_id"])
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor("goes on"))
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=50, ahead_seconds=1.0
    )
    [claimed] = await store.attempts.claim(request)
    await store.attempts.start(number, [began(claimed)._replace(started=await store.now() - seconds)])
    found = (await rig.here.client.get(f"{API}/runs/{run_id}")).json()["anomalies"]
    assert kinds == [each["kind"] for each in found]


async def test_an_attempt_says_what_it_used(rig: Rig) -> None:
    """On its page in one line, by the API in seconds and bytes; what was not measured is left out, or null."""
    job = await bills(rig)
    run = await ran(rig, job, 2.0, ResourceUsage(1.2, 48_000_000, 1_024))
    plain = await ran(rig, job, 2.0)
    browser = await rig.signed_in("looks", ("admin", "*"))
    assert "1.2 s CPU, 48.0 MB" in Markup((await browser.get(f"/runs/{run}")).text).words
    assert "CPU" not in Markup((await browser.get(f"/runs/{plain}")).text).words
    [attempt] = (await rig.here.client.get(f"{API}/runs/{run}")).json()["attempts"]
    assert (1.2, 48_000_000, 1_024) == tuple(attempt[name] for name in ("cpu_seconds", "memory_bytes", "output_bytes"))
    [attempt] = (await rig.here.client.get(f"{API}/runs/{plain}")).json()["attempts"]
    assert [None] * 3 == [attempt[name] for name in ("cpu_seconds", "memory_bytes", "output_bytes")]


async def test_the_page_of_analytics_has_what_runs_used(rig: Rig) -> None:
    """And orders by it; so does its table for spreadsheets."""
    job = await bills(rig)
    await ran(rig, job, 2.0, ResourceUsage(90.0, 48_000_000))
    await ran(rig, job, 2.0, ResourceUsage(30.0, 40_000_000))
    browser = await rig.signed_in("looks", ("admin", "*"))
    answer = await browser.get("/analytics?sort=cpu")
    page = Markup(answer.text).words
    assert ("2 min" in page, "60 s" in page, "48.0 MB" in page, "47.6 MB" in page) == (True, True, True, True)
    table = (await browser.get("/analytics.csv?sort=cpu")).text.splitlines()
    row = dict(zip(table[0].split(","), table[1].split(","), strict=True))
    assert ("120", "60", "48000000") == (row["cpu_seconds"], row["cpu_mean"], row["memory_bytes_max"])
