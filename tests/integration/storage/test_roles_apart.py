"""API, scheduler and executors without a shared folder: outputs, artefacts and scripts go through a bucket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.services.s3.server import S3
from tests.support.s3_links import S3Link
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import upgrade

CLOCK = SystemClock()


class Apart:
    """A fleet whose processes share a database and a bucket, and nothing else."""

    def __init__(self, fleet: Fleet, server: S3, api_link: S3Link, link: S3Link) -> None:
        self.fleet, self.server, self.api_link, self.link = fleet, server, api_link, link
        self.prefix = uuid4().hex
        self.client: httpx2.AsyncClient

    def start(self, role: str, name: str, link: S3Link, *arguments: str, **settings: str) -> Role:
        """A role with a data folder of its own, on its own link to the bucket."""
        folder = self.fleet.folder / name
        folder.mkdir(exist_ok=True)
        return self.fleet.start(
            role, *arguments, TICKWISE_DATA_DIR=str(folder),
            TICKWISE_BLOBS_URL=self.server.blobs_url(self.prefix, endpoint=link.url), **settings,
        )  # fmt: skip

    async def submit(self, source: str, **more: Any) -> str:
        """A shell job that runs at once; the id of its run."""
        job = {"name": uuid4().hex, "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": source}, **more}
        made = await self.client.post("/jobs", json=job)
        assert made.status_code == 201, made.text
        job_id = made.json()["job_id"]

        async def run() -> str | None:
            runs = (await self.client.get(f"/jobs/{job_id}/runs")).json()
            return str(runs[0]["run_id"]) if runs else None

        return str(await eventually(run, what="its run is there"))

    async def state(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"/runs/{run}")).json()
        return found

    async def ended(self, run: str) -> dict[str, Any]:
        """The run, once it is over."""

        async def over() -> dict[str, Any] | None:
            found = await self.state(run)
            return found if found["status"] in ("SUCCESS", "FAILED", "CANCELLED") else None

        found: dict[str, Any] = await eventually(over, within_seconds=60, what="the run ends")
        return found

    async def log(self, run: str) -> dict[str, Any]:
        answer = await self.client.get(f"/runs/{run}/logs", headers={"Accept": "application/json"})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest_asyncio.fixture
async def apart(empty_url: str, s3_server: S3, tmp_path: Path) -> AsyncIterator[Apart]:
    """An API and a scheduler at work; each test starts its executors."""
    await upgrade(empty_url)
    fleet = Fleet(empty_url, tmp_path, **s3_server.settings())
    async with S3Link(s3_server.url) as api_link, S3Link(s3_server.url) as link:
        found = Apart(fleet, s3_server, api_link, link)
        try:
            api = found.start("api", "api", api_link, "--port", "0")
            scheduler = found.start("scheduler", "scheduler", api_link)
            url = await api.ready()
            assert url is not None
            await scheduler.ready()
            async with api_client(url) as found.client:
                yield found
        except BaseException:
            print(fleet.logs())  # noqa: T201  # a failing test shows them
            raise
        finally:
            fleet.stop()


async def test_outputs_artefacts_and_scripts_pass_through_the_bucket(apart: Apart) -> None:
    """Each run on another executor; a line is read while its task runs, and found by a search."""
    for name in ("one", "two"):
        await apart.start("executor", name, apart.link, TICKWISE_QUEUES=name).ready()
    for name in ("one", "two"):
        is_read = apart.fleet.folder / f"{name}-is-read"
        waits = f"until [ -e {is_read} ]; do sleep 0.05; done"
        run = await apart.submit(f"echo first; echo x > kept.txt; {waits}; echo last", queue=name)

        async def has_first(run: str = run) -> bool:
            return "first" in (await apart.log(run))["text"]

        await eventually(has_first, what="the first line is there")
        assert (await apart.state(run))["status"] == "RUNNING"
        is_read.touch()
        assert (await apart.ended(run))["status"] == "SUCCESS"
        log = await apart.log(run)
        assert ("first\nlast\n", True, 0) == (
            log["text"].partition("[kept")[0], log["complete"], log["waiting_bytes"],
        )  # fmt: skip
        [artefact] = (await apart.client.get(f"/runs/{run}/artefacts")).json()
        found = await apart.client.get(artefact["url"].removeprefix("/api/v1"))
        assert b"x\n" == found.content
    search = (await apart.client.get("/logs", params={"find": "LAST"})).json()
    assert [("last", None)] * 2 == [(hit["line"], search["next_before"]) for hit in search["hits"]]


async def test_a_run_ends_well_while_the_bucket_is_away_for_its_executor(apart: Apart) -> None:
    """What waits is said with the executor's name, by the log and by `explain`; after a restart the rest arrives."""
    executor = apart.start("executor", "one", apart.link)
    await executor.ready()
    apart.link.set("refuse")
    run = await apart.submit("for i in 1 2 3; do echo line $i; sleep 0.7; done")
    assert "SUCCESS" == (await apart.ended(run))["status"]
    log = await apart.log(run)
    assert ("", False, 21) == (log["text"], log["complete"], log["waiting_bytes"])
    explained = (await apart.client.get(f"/runs/{run}/explain")).json()
    assert f"21 bytes of its output wait on the executor {log['waiting_on']}" in explained["sentence"], explained
    executor.kill()
    apart.link.set("pass")
    await apart.start("executor", "one", apart.link).ready()

    async def whole() -> bool:
        return bool((await apart.log(run))["complete"])

    await eventually(whole, within_seconds=60, what="the output arrives")
    log = await apart.log(run)
    assert ("line 1\nline 2\nline 3\n", 0, None) == (log["text"], log["waiting_bytes"], log["waiting_on"])


async def test_the_api_answers_while_the_bucket_is_away_for_it(apart: Apart) -> None:
    """Runs and their explanation are there; only what is in the bucket is refused for now."""
    await apart.start("executor", "one", apart.link).ready()
    run = await apart.submit("echo line")
    await apart.ended(run)
    apart.api_link.set("refuse")
    assert "SUCCESS" == (await apart.state(run))["status"]
    explained = await apart.client.get(f"/runs/{run}/explain")
    assert "The store of outputs does not answer" in explained.json()["sentence"]
    answer = await apart.client.get(f"/runs/{run}/logs")
    assert (503, True) == (answer.status_code, "retry-after" in answer.headers)
    apart.api_link.set("pass")
    assert "line\n" == (await apart.log(run))["text"]


async def test_a_download_is_redirected_to_the_bucket(empty_url: str, s3_server: S3, tmp_path: Path) -> None:
    """If the operator says so: after the permission was checked, to an address that works without a key."""
    await upgrade(empty_url)
    fleet = Fleet(empty_url, tmp_path, **s3_server.settings())
    async with S3Link(s3_server.url) as link:
        apart = Apart(fleet, s3_server, link, link)
        try:
            api = apart.start("api", "api", link, "--port", "0", TICKWISE_BLOBS_DOWNLOADS="redirect")
            apart.start("scheduler", "scheduler", link)
            apart.start("executor", "one", link)
            url = await api.ready()
            assert url is not None
            async with api_client(url) as apart.client:
                run = await apart.submit("echo content > file.txt")
                await apart.ended(run)
                [artefact] = (await apart.client.get(f"/runs/{run}/artefacts")).json()
                path = artefact["url"].removeprefix("/api/v1")
                answer = await apart.client.get(path, follow_redirects=False)
                assert 307 == answer.status_code
                assert "no-store" == answer.headers["cache-control"]
                async with httpx2.AsyncClient(trust_env=False, verify=False) as browser:
                    assert b"content\n" == (await browser.get(answer.headers["location"])).content
                    assert 401 == (await browser.get(f"{url}{artefact['url']}")).status_code
        finally:
            fleet.stop()


@pytest.mark.takes_up_to(180)
async def test_a_bucket_that_stalls_in_mid_run_costs_no_task_its_end(apart: Apart) -> None:
    """Of many runs at once: each ends by itself, and every line arrives, once."""
    await apart.start("executor", "one", apart.link).ready()
    runs = [await apart.submit("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done") for _ in range(8)]
    await CLOCK.sleep(1.0)
    apart.link.set("stall")
    for run in runs:
        found = await apart.ended(run)
        assert "SUCCESS" == found["status"], found
    apart.link.set("pass")
    for run in runs:

        async def whole(run: str = run) -> bool:
            log = await apart.log(run)
            return (log["complete"], log["text"]) == (True, "1\n2\n3\n4\n5\n6\n")

        await eventually(whole, within_seconds=60, what="the output arrives, each line once")
