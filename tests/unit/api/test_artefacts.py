"""The artefacts of a run over the API, on its page, and until they are removed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.support.app import API
from tests.support.artefacts import keep_artefacts
from tests.support.pages import pages
from tickwise.documents.artefacts import ARTEFACTS, Artefact, ArtefactIndex, index_content, read_index
from tickwise.ports.store import ClaimRequest, NewExecutor, Retention
from tickwise.roles.scheduler.upkeep import ArtefactRetention, Upkeep

CONTENTS = {"out/<b>.csv": b"<script>", "résumé.txt": b"x" * 10}


async def _run(rig: Any) -> UUID:
    """A run that ended."""
    job = {"name": "a", "task": {"kind": "shell", "command": "x"}, "schedule_type": "IMMEDIATE"}
    made = await rig.here.client.post(f"{API}/jobs", json=job)
    assert made.status_code == 201, made.text
    job_id = made.json()["job_id"]
    runs = (await rig.here.client.get(f"{API}/jobs/{job_id}/runs")).json()
    return UUID(runs[0]["run_id"])


async def test_a_run_without_attempts_has_no_artefacts() -> None:
    """The list is empty; a name in it is not found."""
    async with pages() as rig:
        run = await _run(rig)
        answer = await rig.here.client.get(f"{API}/runs/{run}/artefacts")
        assert (200, []) == (answer.status_code, answer.json())
        for path in (f"/runs/{run}/artefacts/a", f"/runs/{run}/artefacts?attempt=1", f"/runs/{UUID(int=1)}/artefacts"):
            answer = await rig.here.client.get(API + path)
            assert (404, "not_found") == (answer.status_code, answer.json()["code"]), path


async def test_artefacts_are_listed_and_downloaded_as_files() -> None:
    """Byte for byte, and never as something that a browser shows."""
    async with pages() as rig:
        run = await _run(rig)
        await _claim(rig)
        await keep_artefacts(rig.here.control.context.blobs, run, CONTENTS)
        found = (await rig.here.client.get(f"{API}/runs/{run}/artefacts")).json()
        assert [(each["name"], each["size_bytes"]) for each in found] == [("out/<b>.csv", 8), ("résumé.txt", 10)]
        for each in found:
            answer = await rig.here.client.get(each["url"])
            assert (200, CONTENTS[each["name"]]) == (answer.status_code, answer.content)
            headers = answer.headers
            assert ("application/octet-stream", "nosniff") == (
                headers["content-type"], headers["x-content-type-options"],
            )  # fmt: skip
            assert headers["content-disposition"].startswith("attachment; ")
        assert "filename*=UTF-8''r%C3%A9sum%C3%A9.txt" in headers["content-disposition"]
        browser = await rig.signed_in("ada", ("viewer", "default"))
        page = (await browser.get(f"/runs/{run}")).text
        assert "out/&lt;b&gt;.csv" in page
        saved = await browser.get(f"/runs/{run}/artefacts/out/%3Cb%3E.csv?attempt=1")
        assert (200, b"<script>", "application/octet-stream") == (
            saved.status_code, saved.content, saved.headers["content-type"],
        )  # fmt: skip
        assert saved.headers["content-disposition"].startswith("attachment; ")


async def test_the_page_says_which_files_were_not_kept() -> None:
    """Also of an attempt that left nothing else; their names are text."""
    async with pages() as rig:
        run = await _run(rig)
        await _claim(rig)
        blobs = rig.here.control.context.blobs
        browser = await rig.signed_in("ada", ("viewer", "default"))
        await keep_artefacts(blobs, run, {}, left=["<b> (it is a link)", "'a\\nb' (its name is too long)"], more=7)
        page = (await browser.get(f"/runs/{run}")).text
        assert "9 files were not kept: &lt;b&gt; (it is a link), " in page
        assert "and 7 more" in page
        assert [] == (await rig.here.client.get(f"{API}/runs/{run}/artefacts")).json()
        await keep_artefacts(blobs, run, {"a": b"x"}, left=["huge (it has 5368709120 bytes, more than 16777216)"])
        page = (await browser.get(f"/runs/{run}")).text
        await keep_artefacts(blobs, run, {f"{number:03}": b"" for number in range(103)})
        long = (await browser.get(f"/runs/{run}")).text
        assert ("artefacts/099?" in long, "artefacts/100?" in long, "And 3 more" in long) == (True, False, True)
        assert "One file was not kept: huge (it has 5368709120 bytes, more than 16777216)." in page


def test_the_list_of_an_earlier_release_is_read() -> None:
    """It had the artefacts alone."""
    old = b'[{"name": "a", "size_bytes": 1, "sha256": "00"}]'
    assert ArtefactIndex([Artefact("a", 1, "00")]) == read_index(old)
    index = ArtefactIndex([Artefact("a", 1, "00")], ["b (it is a link)"], 3)
    assert index == read_index(index_content(index))


async def test_artefacts_of_another_namespace_are_not_found() -> None:
    """As the run itself is not."""
    async with pages() as rig:
        run = await _run(rig)
        await _claim(rig)
        await keep_artefacts(rig.here.control.context.blobs, run, CONTENTS)
        key = await rig.here.key("stranger", "runs:read", namespace="other")
        for path in ("", "/out%2F%3Cb%3E.csv"):
            answer = await rig.here.client.get(
                f"{API}/runs/{run}/artefacts{path}", headers={"Authorization": f"Bearer {key}"}
            )
            assert 404 == answer.status_code, answer.text


async def test_artefacts_go_with_their_runs_and_the_oldest_first_for_want_of_room() -> None:
    """What is within both limits stays."""
    async with pages() as rig:
        store, blobs = rig.here.store, rig.here.control.context.blobs
        run = await _run(rig)
        for attempt in (1, 2, 3):
            await keep_artefacts(blobs, run, {"a": b"x" * 100}, attempt)
        total = sum(each.size_bytes for each in await blobs.list(ARTEFACTS))
        kept = Retention(runs_seconds=1e9, failed_seconds=1e9)

        def upkeep(seconds: float, bytes_most: int) -> Upkeep:
            limits = ArtefactRetention(seconds, bytes_most)
            return Upkeep(store, blobs, retention=kept, logs_seconds=1.0, artefacts=limits)

        await upkeep(1e9, total).expire_artefacts()
        assert 6 == len(await blobs.list(ARTEFACTS))
        await upkeep(1e9, total - 1).expire_artefacts()
        assert ["2", "3"] == [key.split("/")[3] for key, *_ in await blobs.list(ARTEFACTS)][::2]
        await upkeep(-1e9, total).expire_artefacts()
        assert [] == list(await blobs.list(ARTEFACTS))


async def _claim(rig: Any) -> None:
    """An executor takes what is there: the run has an attempt."""
    store = rig.here.store
    executor = await store.executors.join(
        NewExecutor(number=2, name="e", queues=["default"], labels=[], functions=[], slots=1, lease_seconds=60)
    )
    assert await store.attempts.claim(
        ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=10, ahead_seconds=0)
    )
