"""A run that goes on shows how far it is on its page."""

from __future__ import annotations

from uuid import UUID

from tests.support.app import API
from tests.support.pages import pages
from tests.unit.web.test_pages import SHELL
from tickwise.documents.progress import progress_content, progress_key, progress_of
from tickwise.ports.store import ClaimRequest
from tickwise.testing.contracts.base import began
from tickwise.testing.factories import executor, outcome


async def test_the_page_of_a_run_shows_its_progress_while_it_goes_on() -> None:
    """A bar with a name and its text; nothing for a run that said nothing, or is over."""
    async with pages() as rig:
        store, client, blobs = rig.here.store, rig.here.client, rig.here.control.context.blobs
        job = {"name": "bills", "schedule_type": "IMMEDIATE", "task": SHELL}
        job_id = (await client.post(f"{API}/jobs", json=job)).json()["job_id"]
        run = UUID((await client.get(f"{API}/jobs/{job_id}/runs")).json()[0]["run_id"])
        number = await store.executors.join(executor("one"))
        row = await store.jobs.get("default", UUID(job_id))
        assert row is not None
        labels = [*row.lane.requires]
        [claimed] = await store.attempts.claim(
            ClaimRequest(executor=number, queues=["default"], labels=labels, limit=1, ahead_seconds=1.0)
        )
        await store.attempts.start(number, [began(claimed)])
        browser = await rig.signed_in("looks", ("viewer", "default"))
        assert "<progress" not in (await browser.get(f"/runs/{run}")).text
        assert (await client.get(f"{API}/runs/{run}")).json()["progress"] is None
        await blobs.put(progress_key(run, 1), progress_content(progress_of(0.4, "<b>rows", 0.0)))
        page = (await browser.get(f"/runs/{run}")).text
        assert 'max="1" value="0.4" aria-label="Progress"' in page
        assert "40 % &lt;b&gt;rows" in page
        expected = {"share": 0.4, "text": "<b>rows", "time": "1970-01-01T00:00:00Z"}
        assert expected == (await client.get(f"{API}/runs/{run}")).json()["progress"]
        end = await store.now()
        await store.attempts.finish(number, [outcome(claimed, started=end, ended=end)])
        assert "<progress" not in (await browser.get(f"/runs/{run}")).text
        assert (await client.get(f"{API}/runs/{run}")).json()["progress"] is None
