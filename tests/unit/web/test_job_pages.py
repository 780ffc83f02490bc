"""Jobs are created and edited on pages: nothing typed is lost, and nothing is stored that was not shown."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.domain.errors import StoreUnavailable

SHELL = {"kind": "shell", "command": "date"}
NEW = {
    "name": "nightly", "kind": "shell", "task.command": "date", "schedule_type": "CRON", "timezone": "Europe/Berlin",
    "cron_expression": "30 2 * * *", "action": "save",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


@pytest_asyncio.fixture
async def ada(rig: Rig, request: pytest.FixtureRequest) -> Browser:
    """A developer's browser."""
    return await rig.signed_in(f"ada {request.node.name}"[:60], ("developer", "default"))


async def _job(rig: Rig, **fields: Any) -> str:
    when = {} if "cron" in fields else {"every": "1h"}
    answer = await rig.here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **when, **fields})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def _stored(rig: Rig, job: str) -> dict[str, Any]:
    found: dict[str, Any] = (await rig.here.client.get(f"{API}/jobs/{job}")).json()
    return found


def filled(html: str) -> dict[str, str]:
    """What a browser would send of the form of a job, without its buttons."""
    page, found = Markup(html), {}
    at = html.index("data-editor")
    for each in Markup(html[at:]).named("input"):
        if each.get("type") == "radio" and "checked" not in each:
            continue
        if "name" in each:
            found[each["name"]] = each.get("value", "")
    found |= _chosen(html[at:]) | _areas(html[at:])
    assert page.named("form")
    return found


def _chosen(html: str) -> dict[str, str]:
    found = {}
    for part in html.split("<select ")[1:]:
        inside = part.split("</select>")[0]
        name = Markup("<select " + inside).named("select")[0]["name"]
        options = Markup("<select " + inside).named("option")
        found[name] = next((each["value"] for each in options if "selected" in each), options[0]["value"])
    return found


def _areas(html: str) -> dict[str, str]:
    found = {}
    for part in html.split("<textarea ")[1:]:
        inside = Markup("<textarea " + part.split("</textarea>")[0])
        found[inside.named("textarea")[0]["name"]] = inside.text.removeprefix("\n")
    return found


def faulty(html: str) -> list[str]:
    """The inputs that are marked, in the order of the page."""
    return [each["name"] for _, each in Markup(html).elements if each.get("aria-invalid") == "true"]


# ------------------------------------------------------------------------------------------ new


async def test_a_job_is_created_and_its_page_follows(rig: Rig, ada: Browser) -> None:
    """As it was typed; a form that is sent twice makes one job."""
    form = {**filled((await ada.get("/jobs/new")).text), **NEW, "payload": '{"a": 1}', "labels": "team=x\r\nenv=y"}
    for _ in range(2):
        answer = await ada.post("/jobs/new", form)
        assert 303 == answer.status_code, Markup(answer.text).words
    job = form["job_id"]
    assert f"/jobs/{job}?done=created" == answer.headers["location"]
    stored = await _stored(rig, job)
    assert ("nightly", "30 2 * * *", "Europe/Berlin", {"a": 1}, {"team": "x", "env": "y"}) == tuple(
        stored[name] for name in ("name", "cron_expression", "timezone", "payload", "labels")
    )
    assert "The job is stored." in Markup((await ada.get(answer.headers["location"])).text).words


async def test_faults_are_told_at_their_fields_and_nothing_typed_is_lost(rig: Rig, ada: Browser) -> None:
    """Those of the form and those of control; the first of them has the focus, and words that belong to it."""
    typed = {**NEW, "timeout_seconds": "soon", "labels": "team", "description": "</textarea><b>not lost</b>"}
    answer = await ada.post("/jobs/new", typed)
    assert 422 == answer.status_code
    assert ["labels", "timeout_seconds"] == faulty(answer.text)
    [first] = [each for _, each in Markup(answer.text).elements if "autofocus" in each]
    ids = {each.get("id") for _, each in Markup(answer.text).elements}
    assert ("labels", True) == (first["name"], set(first["aria-describedby"].split()) <= ids)
    again = filled(answer.text)
    assert typed | again == again | {"action": "save"}
    for said, at in (
        ({"cron_expression": "61 * * * *"}, "cron_expression"),
        ({"timezone": "Europe/Berln"}, "timezone"),
        ({"kind": "http", "task.url": "ftp://x"}, "task.url"),
        ({"kind": "python", "task.source": "if True print(1)"}, "task.source"),
        ({"kind": "stored", "taskId": "not there"}, "taskId"),
        ({"queue": "a b"}, "queue"),
        ({"priority": "12"}, "priority"),
        ({"retry.factor": "0.5"}, "retry.factor"),
        ({"max_retries": "-1"}, "max_retries"),
        ({"calendars": "not there"}, "calendars"),
        ({"then": "not there"}, "then"),
        ({"concurrency.limit": "1", "concurrency.key": "label:none"}, "concurrency.key"),
    ):
        answer = await ada.post("/jobs/new", {**NEW, **said})
        assert (422, [at]) == (answer.status_code, faulty(answer.text)), said
        assert said.items() <= filled(answer.text).items()


async def test_a_key_that_is_taken_is_told_at_its_field(rig: Rig, ada: Browser) -> None:
    """It is no fault of the form, and a conflict."""
    await _job(rig, key="taken")
    answer = await ada.post("/jobs/new", {**NEW, "key": "taken"})
    assert (409, ["key"]) == (answer.status_code, faulty(answer.text))


async def test_the_next_times_are_shown_as_one_types(ada: Browser) -> None:
    """The part of the page that a script asks for, and the page for its button; both store nothing."""
    typed = {**NEW, "action": "preview", "start_at": "2027-03-27T00:00", "name": ""}
    for part in ("preview", ""):
        answer = await ada.post("/jobs/new", typed, tickwise_part=part)
        assert 200 == answer.status_code
        assert ("<html" in answer.text) == (not part)
        words = Markup(answer.text).words
        assert "At 02:30 (Europe/Berlin)." in words
        assert "Sun 2027-03-28 03:00:00 CEST clock change" in words
    answer = await ada.post("/jobs/new", {**typed, "cron_expression": "30 2 * *"}, tickwise_part="preview")
    assert (200, True) == (answer.status_code, "Cron line: " in Markup(answer.text).words)
    assert "No job matches." in Markup((await ada.get("/jobs?name=nightly&owner=nobody")).text).words


async def test_without_a_permission_to_read_jobs_are_created_all_the_same(rig: Rig) -> None:
    """Without previews, and with its id told."""
    role = {"permissions": ["jobs:create"]}
    answer = await rig.here.client.put(f"{API}/namespaces/default/roles/submits", json=role)
    assert answer.status_code in (200, 201), answer.text
    browser = await rig.signed_in("submits", ("submits", "default"))
    page = await browser.get("/jobs/new")
    assert 200 == page.status_code
    answer = await browser.post("/jobs/new", {**filled(page.text), **NEW})
    assert 201 == answer.status_code
    assert "The job is accepted." in Markup(answer.text).words


async def test_a_copy_begins_with_what_the_job_is(rig: Rig, ada: Browser) -> None:
    """Under another name, without its key."""
    job = await _job(rig, key="copied", payload={"x": 1}, max_retries=9)
    found = filled((await ada.get(f"/jobs/new?copy={job}")).text)
    assert ("Copy of a", "", "9", "1h") == tuple(
        found[name] for name in ("name", "key", "max_retries", "interval_seconds")
    )
    assert 303 == (await ada.post("/jobs/new", {**found, "action": "save"})).status_code


# ------------------------------------------------------------------------------------------ edit


async def test_a_change_is_shown_before_it_is_saved(rig: Rig, ada: Browser) -> None:
    """Only what changes, with the next times; and what is saved is what was shown."""
    job = await _job(rig, cron="0 3 * * *", description="old")
    form = filled((await ada.get(f"/jobs/{job}/edit")).text)
    said = {**form, "cron_expression": "0 3 * * 1-5", "description": "new", "action": "save"}
    shown = await ada.post(f"/jobs/{job}/edit", said)
    words = Markup(shown.text).words
    assert 200 == shown.status_code
    assert "Description goes: old comes: new" in words
    assert "Schedule goes: 0 3 * * * comes: 0 3 * * 1-5" in words
    assert "goes: Sat" in words
    assert "Payload goes" not in words
    assert "old" == (await _stored(rig, job))["description"]
    seen = filled(shown.text)
    other = await ada.post(f"/jobs/{job}/edit", {**seen, "description": "newer", "action": "save"})
    assert (200, "old") == (other.status_code, (await _stored(rig, job))["description"])
    saved = await ada.post(f"/jobs/{job}/edit", {**seen, "action": "save"})
    assert 303 == saved.status_code
    stored = await _stored(rig, job)
    assert ("0 3 * * 1-5", "new", 2) == (stored["cron_expression"], stored["description"], stored["version"])


async def test_a_form_without_a_change_changes_nothing(rig: Rig, ada: Browser) -> None:
    """Not even the version."""
    job = await _job(rig)
    form = filled((await ada.get(f"/jobs/{job}/edit")).text)
    answer = await ada.post(f"/jobs/{job}/edit", {**form, "action": "save"})
    assert "Nothing is changed." in Markup(answer.text).words
    assert 1 == (await _stored(rig, job))["version"]


async def test_a_secret_is_not_shown_and_stays(rig: Rig, ada: Browser) -> None:
    """Beside a change of the same task."""
    task = {"kind": "http", "url": "https://example.com/a", "headers": {"Authorization": "Bearer x"}}
    job = await _job(rig, task=task)
    page = await ada.get(f"/jobs/{job}/edit")
    assert "Bearer x" not in page.text
    form = {**filled(page.text), "task.url": "https://example.com/b", "action": "save"}
    shown = await ada.post(f"/jobs/{job}/edit", form)
    assert 303 == (await ada.post(f"/jobs/{job}/edit", {**filled(shown.text), "action": "save"})).status_code
    row = await rig.here.store.jobs.get("default", UUID(job))
    assert row is not None
    assert '"url":"https://example.com/b","headers":{"Authorization":"Bearer x"}' in row.definition


async def test_the_second_of_two_people_sees_what_the_first_changed(rig: Rig, ada: Browser) -> None:
    """Part by part: each other's changes are kept, and where both changed the same one decides."""
    job = await _job(rig, cron="0 3 * * *", description="old", owner="ada")
    form = filled((await ada.get(f"/jobs/{job}/edit")).text)
    theirs = {"cron": "0 4 * * *", "description": "theirs", "labels": {"by": "bo"}}
    assert 200 == (await rig.here.client.patch(f"{API}/jobs/{job}", json=theirs)).status_code
    mine = {**form, "cron_expression": "0 5 * * *", "priority": "9", "description": "mine", "action": "save"}
    told = await ada.post(f"/jobs/{job}/edit", mine)
    words = Markup(told.text).words
    assert 409 == told.status_code
    assert "Somebody changed this job while you edited it" in words  # developers do not read the audit log
    assert "Description old theirs mine" in words
    assert "Schedule 0 3 * * * 0 4 * * * 0 5 * * *" in words
    assert "Labels – by=bo unchanged: theirs stays" in words
    assert re.search(r"goes: (Mon|Tue|Wed|Thu|Fri|Sat|Sun)", words)
    again = filled(told.text)
    assert ("2", "by=bo", "0 5 * * *", "9") == tuple(
        again[name] for name in ("version", "labels", "cron_expression", "priority")
    )
    assert {"when", "description"} == set(again["both"].split(","))
    undecided = await ada.post(f"/jobs/{job}/edit", {**again, "action": "save"})
    assert (200, 2) == (undecided.status_code, (await _stored(rig, job))["version"])
    decided = {**again, "take.when": "yours", "take.description": "theirs", "action": "save"}
    shown = await ada.post(f"/jobs/{job}/edit", decided)
    assert "Description goes" not in Markup(shown.text).words
    saved = await ada.post(f"/jobs/{job}/edit", {**filled(shown.text), "action": "save"})
    assert 303 == saved.status_code, Markup(saved.text).words
    stored = await _stored(rig, job)
    assert ("0 5 * * *", "theirs", {"by": "bo"}, 9, 3) == tuple(
        stored[name] for name in ("cron_expression", "description", "labels", "priority", "version")
    )


async def test_the_first_is_named_to_those_who_read_the_audit_log(rig: Rig) -> None:
    """By the last entry about the job."""
    browser = await rig.signed_in("looks closely", ("admin", "default"))
    bo = await rig.signed_in("bo", ("developer", "default"))
    job = await _job(rig)
    form = filled((await browser.get(f"/jobs/{job}/edit")).text)
    shown = await bo.post(f"/jobs/{job}/edit", {**form, "priority": "1", "action": "save"})
    assert 303 == (await bo.post(f"/jobs/{job}/edit", {**filled(shown.text), "action": "save"})).status_code
    told = await browser.post(f"/jobs/{job}/edit", {**form, "queue": "fast", "action": "save"})
    assert (409, True) == (told.status_code, "bo changed this job while you edited it" in Markup(told.text).words)


async def test_a_change_between_the_look_and_the_save_is_not_undone(
    rig: Rig, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write has the version that was shown."""
    job = await _job(rig, description="old")
    shown = await ada.post(
        f"/jobs/{job}/edit",
        {**filled((await ada.get(f"/jobs/{job}/edit")).text), "description": "mine", "action": "save"},
    )
    change = rig.here.control.requests.change

    async def after_another(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        await rig.here.client.patch(f"{API}/jobs/{job}", json={"description": "theirs"})
        return await change(*args[1:], **named)

    monkeypatch.setattr(type(rig.here.control.requests), "change", after_another)
    told = await ada.post(f"/jobs/{job}/edit", {**filled(shown.text), "action": "save"})
    assert (409, "theirs") == (told.status_code, (await _stored(rig, job))["description"])
    assert "Description old theirs mine" in Markup(told.text).words


async def test_a_store_that_is_away_takes_nothing_that_was_typed(
    rig: Rig, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of a new job nor of a change."""
    job = await _job(rig)
    form = {**filled((await ada.get(f"/jobs/{job}/edit")).text), "description": "a long thought", "action": "save"}

    async def away(*_args: Any, **_named: Any) -> Any:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(type(rig.here.control.requests), "create", _like(type(rig.here.control.requests).create, away))
    for path, typed in (("/jobs/new", {**NEW, "description": "a long thought"}), (f"/jobs/{job}/edit", form)):
        if path != "/jobs/new":
            monkeypatch.setattr(type(rig.here.control.jobs), "get", _like(type(rig.here.control.jobs).get, away))
        answer = await ada.post(path, typed)
        assert 503 == answer.status_code, path
        found = filled(answer.text)
        assert "a long thought" == found["description"]
        assert {name: typed.get(name) for name in ("version", "base")} == {
            name: found.get(name) for name in ("version", "base")
        }


def _like(method: Any, other: Any) -> Any:
    """Another body for a method, under the permissions that it declares."""
    other.__dict__.update(method.__dict__)
    return other


async def test_a_session_that_ends_in_the_form_takes_nothing_along(rig: Rig) -> None:
    """After the sign-in the form is there again, with all that was typed, its version and its base."""
    browser = await rig.signed_in("ends", ("developer", "default"))
    job = await _job(rig)
    form = {**filled((await browser.get(f"/jobs/{job}/edit")).text), "description": "two\r\nlines", "action": "save"}
    await browser.post("/logout")
    asked = await browser.post(f"/jobs/{job}/edit", form)
    assert 401 == asked.status_code
    kept = {
        each["name"]: each["value"] for each in Markup(asked.text).named("input") if each["name"].startswith("typed.")
    }
    resumed = await browser.sign_in("ends", next=f"/jobs/{job}/edit", **kept)
    hidden = {each["name"]: each["value"] for each in Markup(resumed.text).named("input")}
    answer = await browser.post(f"/jobs/{job}/edit", {**hidden, "action": "edit"})
    assert 200 == answer.status_code
    found = filled(answer.text)
    assert "two\nlines" == found["description"]
    assert (form["version"], form["base"]) == (found["version"], found["base"])
    assert [] == faulty(answer.text)


async def test_a_base_that_was_tampered_with_is_no_fault_of_ours(rig: Rig, ada: Browser) -> None:
    """It is the sender's own form: the job as it is stands in for it."""
    job = await _job(rig)
    form = filled((await ada.get(f"/jobs/{job}/edit")).text)
    for base in ("", "[]", "{", '{"name": 3}', "null", '{"when": ' * 2_000):
        answer = await ada.post(f"/jobs/{job}/edit", {**form, "base": base, "description": "x", "action": "save"})
        assert 200 == answer.status_code, base[:20]
    odd = {**form, "version": "x"}
    assert 422 == (await ada.post(f"/jobs/{job}/edit", odd)).status_code


async def test_a_cancelled_job_takes_no_change(rig: Rig, ada: Browser) -> None:
    """And says so."""
    job = await _job(rig)
    await rig.here.client.delete(f"{API}/jobs/{job}")
    page = await ada.get(f"/jobs/{job}/edit")
    assert "it takes no change" in Markup(page.text).words
    answer = await ada.post(f"/jobs/{job}/edit", {**filled(page.text), "priority": "1", "action": "save"})
    assert 409 == answer.status_code


# ------------------------------------------------------------------------------------------ one occurrence, one run


async def test_run_now_begins_with_the_payload_of_the_last_time(rig: Rig, ada: Browser) -> None:
    """A form that is sent twice makes one run."""
    job = await _job(rig, payload={"for": "all"})
    page = (await ada.get(f"/jobs/{job}")).text
    name = next(each["value"] for each in Markup(page).named("input") if each.get("name") == "once")
    form = {"once": name, "payload": '{"for": "one"}'}
    first, second = [await ada.post(f"/jobs/{job}/run-now", form) for _ in range(2)]
    assert (303, first.headers["location"]) == (second.status_code, second.headers["location"])
    assert 1 == len((await rig.here.client.get(f"{API}/runs?job_id={job}")).json())
    again = (await ada.get(f"/jobs/{job}")).text
    assert '{\n  "for": "one"\n}' == _areas(again)["payload"]
    assert name != next(each["value"] for each in Markup(again).named("input") if each.get("name") == "once")


async def test_the_occurrence_that_was_shown_is_skipped_and_no_other(rig: Rig, ada: Browser) -> None:
    """One that is not the next any more is a conflict, and told."""
    job = await _job(rig, cron="0 3 * * *")
    page = Markup((await ada.get(f"/jobs/{job}")).text)
    shown = [each["value"] for each in page.named("input") if each.get("name") == "occurrence"]
    assert 2 == len(shown)
    assert 303 == (await ada.post(f"/jobs/{job}/skip-next", {"occurrence": shown[0], "reason": "x"})).status_code
    assert (
        409
        == (await ada.post(f"/jobs/{job}/snooze", {"occurrence": shown[0], "until": "2040-01-01T00:00"})).status_code
    )
    later = Markup((await ada.get(f"/jobs/{job}")).text)
    assert shown[0] not in [each["value"] for each in later.named("input") if each.get("name") == "occurrence"]


async def test_a_run_is_run_again_with_an_edited_payload(rig: Rig, ada: Browser) -> None:
    """It begins with its own; a form that is refused keeps what was typed, and one that is sent twice makes one run."""
    job = await _job(rig, payload={"for": "all"})
    made = await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={"payload": {"for": "one"}})
    run = made.json()["run_id"]
    await rig.here.client.post(f"{API}/runs/{run}/cancel")
    page = (await ada.get(f"/runs/{run}")).text
    assert '{\n  "for": "one"\n}' == _areas(page)["payload"]
    name = next(each["value"] for each in Markup(page).named("input") if each.get("name") == "once")
    refused = await ada.post(f"/runs/{run}/retry", {"once": name, "payload": "{oops"})
    assert (422, "{oops", ["payload"]) == (refused.status_code, _areas(refused.text)["payload"], faulty(refused.text))
    form = {"once": name, "payload": '{"for": "two"}'}
    first, second = [await ada.post(f"/runs/{run}/retry", form) for _ in range(2)]
    assert (303, first.headers["location"]) == (second.status_code, second.headers["location"])
    assert 2 == len((await rig.here.client.get(f"{API}/runs?job_id={job}")).json())
    again = (await rig.here.client.get(f"{API}{first.headers['location']}")).json()
    assert ({"for": "two"}, run) == (again["payload"], again["origin"])


# ------------------------------------------------------------------------------------------ what travels with a task


async def test_the_files_of_a_script_are_shown_as_people_wrote_them(rig: Rig, ada: Browser) -> None:
    """Line by line, and not as JSON; a module that says another encoding too. What is no text shows its size."""
    latin = b64encode("# -*- coding: latin-1 -*-\nWORD = 'Größe'\n".encode("latin-1")).decode()
    files = {"loader.py": "X = 1\nY = '<b>'\n", "texts.py": {"base64": latin}, "logo.png": {"base64": "iVBORwo="}}
    job = await _job(rig, task={"kind": "python", "source": "import loader\n", "files": files})
    page = (await ada.get(f"/jobs/{job}")).text
    shown = [part.partition("</details>")[0] for part in page.split('<details class="travels">')[1:]]
    assert ["loader.py", "logo.png", "texts.py"] == [Markup(part).text.split()[0] for part in shown]
    assert "X = 1\nY = &#39;&lt;b&gt;&#39;\n</pre>" in shown[0]
    assert ("It is no text." in shown[1], "5 Bytes" in shown[1]) == (True, True), shown[1]
    assert "Größe" in Markup(shown[2]).text
    assert "base64" not in page


async def test_a_job_that_was_changed_leads_to_what_changed(rig: Rig) -> None:
    """For those who may read the audit log."""
    job = await _job(rig, name="changing")
    link = f"target={job}&amp;action=job.changed"
    admin = await rig.signed_in("audits jobs", ("admin", "default"))
    viewer = await rig.signed_in("views jobs", ("viewer", "default"))
    assert link not in (await admin.get(f"/jobs/{job}")).text
    answer = await rig.here.client.patch(f"{API}/jobs/{job}", json={"priority": 7})
    assert 200 == answer.status_code, answer.text
    assert (True, False) == (
        link in (await admin.get(f"/jobs/{job}")).text, link in (await viewer.get(f"/jobs/{job}")).text,
    )  # fmt: skip
