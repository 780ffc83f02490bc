"""Status pages in the API: what an administrator chooses, what schedulers find, what people announce."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tests.unit.api.test_channels import key_of
from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.status_pages import LOOK_SECONDS, MAX_JOBS, MAX_UPDATES, MISSING_SECONDS, OVERDUE_SECONDS
from tickwise.roles.scheduler.observing import status_looks
from tickwise.roles.scheduler.observing.status_looks import StatusLooks

PAGE = {"slug": "acme", "title": "Acme: nightly work"}
INCIDENT = {"kind": "incident", "title": "Exports are late", "text": "We look at it."}
SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def made_of(here: Scene, *components: dict[str, Any], **said: Any) -> str:
    """The path of a new page that is public."""
    body = {**PAGE, "enabled": True, "components": list(components), **said}
    return f"/status-pages/{(await here.ask('POST', '/status-pages', 201, body))['page_id']}"


async def looked(here: Scene, path: str) -> dict[str, str]:
    """The states of the components after a look."""
    await here.pass_time(LOOK_SECONDS)
    while await StatusLooks(here.store).step() == 0:
        pass
    return {each["name"]: each["state"] for each in (await here.ask("GET", path))["components"]}


async def test_a_page_is_made_and_is_not_public_unless_that_is_said(here: Scene) -> None:
    """Jobs are named by key or name, and kept by id."""
    job = await here.create(every="1h", name="export acme", key="export")
    said = {"name": " Exports ", "jobs": ["export", "export acme", job], "labels": {"team": "red"}}
    made = await here.ask("POST", "/status-pages", 201, {**PAGE, "components": [said], "intro": "a\r\nb "})
    assert (False, "/status/acme", "a\nb", 90, False, None) == tuple(
        made[name] for name in ("enabled", "path", "intro", "history_days", "show_uptime", "looked_at")
    )
    assert [{"name": "Exports", "jobs": [job], "labels": {"team": "red"}, "state": "unknown"}] == made["components"]
    path = f"/status-pages/{made['page_id']}"
    assert made == await here.ask("GET", path)
    assert [made] == await here.ask("GET", "/status-pages")
    changed = await here.ask("PATCH", path, 200, {"enabled": True, "show_uptime": True})
    assert made | {"enabled": True, "show_uptime": True, "version": 2} == changed
    assert changed == await here.ask("DELETE", path)
    await here.ask("GET", path, 404)


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"slug": "Acme"}, "/slug"),
        ({"slug": "-a"}, "/slug"),
        ({"slug": "a" * 64}, "/slug"),
        ({"slug": "a/b"}, "/slug"),
        ({"title": "\u202e"}, "/title"),
        ({"title": "a\nb"}, "/title"),
        ({"intro": "a\0"}, "/intro"),
        ({"history_days": 91}, "/history_days"),
        ({"components": [{"name": "a"}, {"name": " a"}]}, "/components/1/name"),
        ({"components": [{"name": "a", "jobs": ["no such job"]}]}, "/components/0/jobs/0"),
        ({"components": [{"name": "a", "labels": {"a": "\0"}}]}, "/components/0/labels"),
        ({"components": [{"name": "a"}] * 21}, "/components"),
        ({"public": True}, "/public"),
    ],
)
async def test_a_page_that_cannot_be_is_refused_with_the_field(here: Scene, said: dict[str, Any], pointer: str) -> None:
    """Nothing is stored."""
    found = await here.ask("POST", "/status-pages", 422, {**PAGE, **said})
    assert pointer == found["pointer"]
    assert [] == await here.ask("GET", "/status-pages")


async def test_a_slug_is_taken_once(here: Scene) -> None:
    """Also by a change."""
    await made_of(here)
    assert "slug_taken" == (await here.ask("POST", "/status-pages", 409, PAGE))["code"]
    other = await made_of(here, slug="other")
    assert "slug_taken" == (await here.ask("PATCH", other, 409, {"slug": "acme"}))["code"]


async def test_a_component_is_as_its_jobs_end(here: Scene) -> None:
    """Unknown before the first end; degraded while some fail, down while all do; well again by a success. A job that
    is cancelled counts no more, and one that is paused says nothing."""
    for key in ("good", "bad"):
        await here.create(schedule_type="ON_DEMAND", key=key, labels={"team": "red"}, max_retries=0)
    path = await made_of(here, {"name": "All", "labels": {"team": "red"}}, {"name": "Good", "jobs": ["good"]})
    assert {"All": "unknown", "Good": "unknown"} == await looked(here, path)
    holder = await here.join()

    async def run(key: str, *, fails: bool) -> None:
        job = (await here.ask("GET", f"/jobs/by-key/{key}"))["job_id"]
        await here.ask("POST", f"/jobs/{job}/runNow", 202, {})
        claims = await here.take(holder)
        await here.begin(holder, claims)
        await here.finish(holder, claims, RunState.FAILED if fails else RunState.SUCCESS)

    await run("good", fails=False)
    assert {"All": "operational", "Good": "operational"} == await looked(here, path)
    await run("bad", fails=True)
    assert {"All": "degraded", "Good": "operational"} == await looked(here, path)
    await run("good", fails=True)
    assert {"All": "down", "Good": "down"} == await looked(here, path)
    await run("bad", fails=False)
    assert {"All": "degraded", "Good": "down"} == await looked(here, path)
    good = (await here.ask("GET", "/jobs/by-key/good"))["job_id"]
    await here.ask("POST", f"/jobs/{good}/pause", 200, {})
    assert {"All": "operational", "Good": "unknown"} == await looked(here, path)


async def test_a_component_is_late_when_a_job_waits_and_down_when_it_did_not_run(here: Scene) -> None:
    """As its due time passes, without any run."""
    await here.create(every="1h", key="late", max_retries=0)
    path = await made_of(here, {"name": "a", "jobs": ["late"]})
    await here.pass_time(3_600.0 + OVERDUE_SECONDS)
    assert {"a": "late"} == await looked(here, path)
    await here.pass_time(MISSING_SECONDS)
    assert {"a": "down"} == await looked(here, path)


async def test_a_page_of_many_jobs_is_looked_at_in_bounds(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of a label; and more pages than one step takes are all looked at."""
    monkeypatch.setattr(status_looks, "PAGES", 1)
    for number in range(MAX_JOBS + 5):
        await here.create(schedule_type="ON_DEMAND", key=f"j{number}", labels={"team": "red"})
    paths = [await made_of(here, {"name": "a", "labels": {"team": "red"}}, slug=f"s{at}") for at in range(3)]
    await looked(here, paths[0])
    assert all([(await here.ask("GET", path))["looked_at"] for path in paths])


async def test_an_incident_is_told_and_resolved(here: Scene) -> None:
    """With the components that it is about, and the states of its kind alone."""
    path = await made_of(here, {"name": "Exports"})
    told = f"{path}/announcements"
    made = await here.ask("POST", told, 201, {**INCIDENT, "components": ["Exports"]})
    assert ("investigating", False, ["Exports"], None) == tuple(
        made[name] for name in ("state", "over", "components", "until")
    )
    one = f"{told}/{made['announcement_id']}"
    changed = await here.ask("POST", f"{one}/updates", 200, {"state": "resolved", "text": "All are there."})
    assert ("resolved", True, 2) == (changed["state"], changed["over"], len(changed["updates"]))
    planned = {
        "kind": "maintenance", "title": "The database moves", "text": "Nothing starts meanwhile.",
        "from": "2027-02-01T22:00:00Z", "until": "2027-02-01T23:00:00Z",
    }  # fmt: skip
    second = await here.ask("POST", told, 201, planned)
    assert ("announced", "2027-02-01T23:00:00Z") == (second["state"], second["until"])
    assert {made["announcement_id"], second["announcement_id"]} == {
        each["announcement_id"] for each in await here.ask("GET", told)
    }
    for wrong, pointer in (
        ({"state": "ended"}, "/state"),
        ({"text": "  "}, "/text"),
        ({"components": ["Mail"]}, "/components/0"),
        ({"until": "2099-01-01T00:00:00Z"}, "/until"),
        ({"from": "soon"}, "/from"),
    ):
        assert pointer == (await here.ask("POST", told, 422, {**INCIDENT, **wrong}))["pointer"]
    late = {**planned, "from": "2027-02-02T00:00:00Z"}
    assert "/until" == (await here.ask("POST", told, 422, late))["pointer"]
    assert changed == await here.ask("DELETE", one)
    await here.ask("POST", f"{one}/updates", 404, {"state": "resolved", "text": "x"})


async def test_an_announcement_takes_so_many_updates(here: Scene) -> None:
    """And no more."""
    told = f"{await made_of(here)}/announcements"
    one = f"{told}/{(await here.ask('POST', told, 201, INCIDENT))['announcement_id']}/updates"
    for _ in range(MAX_UPDATES - 1):
        await here.ask("POST", one, 200, {"state": "monitoring", "text": "Still there."})
    await here.ask("POST", one, 422, {"state": "resolved", "text": "It is over."})


async def test_permissions_of_status_pages(here: Scene) -> None:
    """`status:admin` writes pages, `notices:operate` announces, `notices:read` looks."""
    path = await made_of(here)
    reader, operator = await key_of(here, "notices:read"), await key_of(here, "notices:operate")
    admin = await key_of(here, "status:admin")
    assert 1 == len(await here.ask("GET", "/status-pages", key=reader))
    await here.ask("POST", "/status-pages", 403, {**PAGE, "slug": "x"}, key=operator)
    await here.ask("PATCH", path, 403, {"title": "x"}, key=operator)
    await here.ask("DELETE", path, 403, key=operator)
    await here.ask("POST", f"{path}/announcements", 403, INCIDENT, key=reader)
    await here.ask("POST", f"{path}/announcements", 201, INCIDENT, key=operator)
    await here.ask("PATCH", path, 200, {"title": "x"}, key=admin)
    assert 1 == len(await here.ask("GET", f"{path}/announcements", key=admin))
