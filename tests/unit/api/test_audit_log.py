"""`GET /audit` and its export: what each caller sees of it, page by page, and what is never in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key
from tests.support.waiting import eventually
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source

JOB = {"name": "nightly", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}, "payload": {"pin": "4711"}}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        await made.control.bearers.sign_with(signing_key())
        for name in ("team-a", "team-b"):
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        yield made


async def entries(here: World, query: str = "", credential: str = ADMIN_KEY, **more: Any) -> list[dict[str, Any]]:
    answer = await ask(here, credential, "GET", f"/audit{query}", **more)
    assert 200 == answer.status_code, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


async def key_in(here: World, namespace: str, **fields: Any) -> dict[str, Any]:
    body = {"name": f"ci-{namespace}", "role": "admin", "namespaces": [namespace], **fields}
    answer = await ask(here, ADMIN_KEY, "POST", "/keys", json=body)
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_an_entry_says_who_did_what_from_where(here: World) -> None:
    """With the id of the request, as its answer bore it."""
    key = await key_in(here, "team-a")
    answer = await ask(here, key["key"], "POST", "/jobs", json=JOB)
    [entry] = await entries(here, f"?target={answer.json()['job_id']}")
    assert ("job.created", "team-a", "job") == (entry["action"], entry["namespace"], entry["target_kind"])
    assert ("key", key["key_id"], "ci-team-a") == tuple(entry["caller"][name] for name in ("kind", "id", "name"))
    assert answer.headers["x-request-id"] == entry["caller"]["request_id"]
    assert entry["caller"]["address"]


async def test_a_job_that_moves_is_in_the_log_of_both_namespaces(here: World) -> None:
    """Each side sees an entry of its own, with the other side's name."""
    mine, theirs = await key_in(here, "team-a"), await key_in(here, "team-b")
    job_id = (await ask(here, mine["key"], "POST", "/jobs", json=JOB)).json()["job_id"]
    body = {"namespace": "team-b"}
    for _ in range(2):
        moved = await ask(here, ADMIN_KEY, "POST", f"/jobs/{job_id}/move", json=body, namespace="team-a")
        assert 200 == moved.status_code
    [left] = await entries(here, "?action=job.moved", mine["key"])
    [arrived] = await entries(here, "?action=job.moved", theirs["key"])
    assert (job_id, {"to": "team-b"}) == (left["target"], left["detail"])
    assert (job_id, {"from": "team-a"}) == (arrived["target"], arrived["detail"])
    assert left["caller"] == arrived["caller"]


async def test_filters_narrow_the_list_and_pages_hold_each_entry_once(here: World) -> None:
    """The newest first; the export has the same entries, the oldest first."""
    key = await key_in(here, "team-a")
    for number in range(5):
        await ask(here, key["key"], "POST", "/jobs", json={**JOB, "name": f"job {number}"})
    every = await entries(here, "?action=job.created&actor=ci-team-a")
    assert 5 == len(every)
    path, seen = "/audit?action=job.created&limit=2", []
    while path:
        page = await ask(here, ADMIN_KEY, "GET", path)
        seen += page.json()
        link = page.links.get("next", {}).get("url", "")
        path = link.removeprefix(str(here.client.base_url)).removeprefix("/api/v1")
    assert every == seen
    exported = await ask(here, ADMIN_KEY, "GET", "/audit/export?action=job.created")
    assert [*reversed(every)] == [json.loads(line) for line in exported.text.splitlines()]
    assert 1 == len(await entries(here, "?action=audit.exported"))
    assert [] == await entries(here, "?since=2999-01-01T00:00:00Z")
    assert 422 == (await ask(here, ADMIN_KEY, "GET", "/audit?cursor=bm90aGluZw")).status_code


async def test_an_export_says_where_it_ends_and_the_next_one_goes_on_there(here: World) -> None:
    """Also over several days, of which some have no entry; together they have each entry once."""
    key = await key_in(here, "team-a")
    for number in range(3):
        await ask(here, key["key"], "POST", "/jobs", json={**JOB, "name": f"job {number}"})
    rows = here.store.state.audit.rows
    for place, (number, row) in enumerate(list(rows.items())[:-1]):
        rows[number] = replace(row, at=row.at - 86_400.0 * (9 - place // 2 * 3))
    first = await ask(here, ADMIN_KEY, "GET", "/audit/export?namespace=team-a")
    until = next_since = first.headers["tickwise-until"]
    got = [json.loads(line) for line in first.text.splitlines()]
    before = len(got)
    last = await ask(here, key["key"], "POST", "/jobs", json=JOB)

    async def has_last() -> bool:
        """An export ends at a whole millisecond: what was written within that one is in the next export."""
        nonlocal next_since
        params = {"namespace": "team-a", "since": next_since}
        answer = await ask(here, ADMIN_KEY, "GET", "/audit/export", params=params)
        next_since = answer.headers["tickwise-until"]
        got.extend(json.loads(line) for line in answer.text.splitlines())
        return last.json()["job_id"] in [each["target"] for each in got]

    await eventually(has_last, what="an export has the last job")
    every = [each for each in await entries(here, "?namespace=team-a&limit=500") if each["action"] != "audit.exported"]
    assert [each["entry"] for each in reversed(every)] == [
        each["entry"] for each in got if each["action"] != "audit.exported"
    ]
    assert all(each["at"] < until for each in got[:before])
    exported = await entries(here, "?action=audit.exported&namespace=team-a")
    assert {"until"} <= exported[-1]["detail"].keys()


async def test_a_page_of_large_entries_is_cut_and_goes_on(here: World) -> None:
    """An entry of a batch has thousands of ids: 500 of them were an answer of 195 MB."""
    source = Source(CallerKind.KEY, None, "ci-team-a")
    ids = [uuid4() for _ in range(10_000)]
    batch = AuditEntry("team-a", AuditAction.JOB_CREATED, source, "job", targets=ids)
    await here.store.audit.add([batch] * 30)
    page = await ask(here, ADMIN_KEY, "GET", "/audit?actor=ci-team-a&limit=500")
    assert 10 == len(page.json())
    assert "next" in page.links
    exported = await ask(here, ADMIN_KEY, "GET", "/audit/export?actor=ci-team-a")
    assert 30 == len(exported.text.splitlines())


async def test_a_namespace_sees_its_own_entries(here: World) -> None:
    """An administrator of the installation sees all, one without `audit:read` none."""
    mine, theirs = await key_in(here, "team-a"), await key_in(here, "team-b")
    developer = await key_in(here, "team-b", role="developer")
    await person(here, "Ada", ("viewer", "team-a"))
    for key in (mine, theirs):
        assert 201 == (await ask(here, key["key"], "POST", "/jobs", json=JOB)).status_code
    assert {"team-b"} == {each["namespace"] for each in await entries(here, credential=theirs["key"])}
    assert 403 == (await ask(here, theirs["key"], "GET", "/audit?namespace=team-a")).status_code
    assert 403 == (await ask(here, theirs["key"], "GET", "/audit/export?namespace=*")).status_code
    assert 403 == (await ask(here, developer["key"], "GET", "/audit")).status_code
    assert {"team-a", "team-b", "*"} <= {each["namespace"] for each in await entries(here)}
    assert {"team-a"} == {each["namespace"] for each in await entries(here, namespace="team-a")}


async def test_a_later_namespace_of_a_name_sees_nothing_of_the_former_one(here: World) -> None:
    """The chain goes on, and an administrator of the installation reads all of it."""
    before = await entries(here, "?namespace=team-a")
    state = here.store.state
    del state.namespaces["team-a"]
    await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})
    key = await key_in(here, "team-a")
    seen = {each["entry"] for each in await entries(here, credential=key["key"])}
    assert seen.isdisjoint(each["entry"] for each in before)
    assert seen < {each["entry"] for each in await entries(here, "?namespace=team-a")}


async def test_sign_ins_and_refusals_are_entries(here: World) -> None:
    """The good ones, the wrong ones, a permission that lacks; the last are gathered and written a moment later."""
    await person(here, "Ada", ("viewer", "team-a"))
    token = (await signed_in(here, "Ada"))["access_token"]
    body = {"grant_type": "password", "username": "Ada", "password": "not the password"}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    for _ in range(3):
        assert 403 == (await ask(here, token, "POST", "/jobs", json=JOB)).status_code

    async def denied() -> list[dict[str, Any]]:
        return await entries(here, "?action=auth.denied")

    found = await eventually(denied, what="the refusal is written")
    assert {"Ada"} == {each["caller"]["name"] for each in found}
    actions = {each["action"] for each in await entries(here, "?limit=500")}
    assert {"auth.signed_in", "auth.sign_in_failed", "user.added"} <= actions


async def test_a_failed_sign_in_names_a_person_and_never_what_was_typed(here: World, capsys: Any) -> None:
    """People type passwords into the field of the name: only the name of a person who is there is kept, in the log of
    the process as well."""
    await person(here, "Ada", ("viewer", "team-a"))
    tried = ["ada", "correct horse battery staple", "no.one@example.com", "correct horse"]
    for username in tried:
        body = {"grant_type": "password", "username": username, "password": "wrong password"}
        assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code

    async def failed() -> list[dict[str, Any]] | None:
        found = await entries(here, "?action=auth.sign_in_failed&limit=500")
        return found if len(tried) <= sum(each["detail"]["count"] for each in found) else None

    await here.control.denials.write(last=True)
    found = await eventually(failed, what="all of them are written")
    assert {"": 3, "Ada": 1} == Counter(
        each["caller"]["name"] for each in found for _ in range(each["detail"]["count"])
    )
    text = json.dumps(await entries(here, "?limit=500")) + capsys.readouterr().out
    assert [] == [username for username in tried[1:] if username in text]


async def test_the_id_of_a_request_is_of_a_safe_alphabet(here: World) -> None:
    """A client may choose it, within bounds; another one is replaced."""
    for chosen, kept in (("a-B.c_1", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("<b>", False)):
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "X-Request-Id": chosen}
        made = await here.client.post("/api/v1/jobs", json=JOB, headers=headers)
        assert 201 == made.status_code
        [entry] = await entries(here, f"?target={made.json()['job_id']}")
        assert kept is (chosen == entry["caller"]["request_id"])
        assert re.fullmatch("[A-Za-z0-9._-]{1,128}", entry["caller"]["request_id"])


async def test_no_secret_is_in_an_entry(here: World) -> None:
    """Neither passwords, nor secrets of keys and links, nor payloads of jobs."""
    key = await key_in(here, "team-a")
    await person(here, "Ada", ("viewer", "team-a"))
    invited = await ask(here, ADMIN_KEY, "POST", "/users", json={"name": "Bob", "roles": []})
    made = await ask(here, key["key"], "POST", "/jobs", json=JOB)
    task = {"kind": "shell", "command": "mysql -p4713 < dump.sql"}
    change = {"payload": {"pin": "4712"}, "task": task}
    await ask(here, key["key"], "PUT", f"/jobs/{made.json()['job_id']}", json=change)
    await ask(here, key["key"], "POST", "/tasks", json={"task_id": "t", "name": "t", "task": task})
    rotated = await ask(here, ADMIN_KEY, "POST", f"/keys/{key['key_id']}/rotate", json={})
    text = json.dumps(await entries(here, "?limit=500"))
    secrets = [PASSWORD, key["key"], rotated.json()["key"], invited.json()["link"], "4711", "4712", "4713"]
    assert [] == [secret for secret in secrets if secret in text]
    assert [] == [action for action in ("key.rotated", "job.changed", "task.stored") if action not in text]


async def test_a_namespace_reads_of_its_own_roles_alone(here: World) -> None:
    """An entry in it names no role that the person has elsewhere."""
    eve = await person(here, "Eve", ("viewer", "team-a"), ("admin", "team-b"))
    boss = await key_in(here, "team-a")
    change = {"roles": [{"role": "operator", "namespace": "team-a"}]}
    assert 200 == (await ask(here, boss["key"], "PATCH", f"/users/{eve['user_id']}", json=change)).status_code
    [entry] = await entries(here, "?action=user.changed", boss["key"])
    assert (["viewer in team-a"], ["operator in team-a"]) == (entry["before"]["roles"], entry["after"]["roles"])
    change = {"roles": [{"role": "viewer", "namespace": "team-b"}]}
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", f"/users/{eve['user_id']}", json=change)).status_code
    entry = (await entries(here, "?action=user.changed"))[0]
    assert ["admin in team-b", "operator in team-a"] == entry["before"]["roles"]


async def test_a_change_of_the_labels_of_a_role_is_on_record(here: World) -> None:
    """A role for all jobs and one for some are two."""
    role = {"role": "developer", "namespace": "team-a"}
    eve = await person(here, "Eve", ("developer", "team-a"))
    change = {"roles": [{**role, "labels": {"team": "billing", "env": "prod"}}]}
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", f"/users/{eve['user_id']}", json=change)).status_code
    [entry] = await entries(here, "?action=user.changed")
    after = "developer in team-a for jobs with env=prod, team=billing"
    assert (["developer in team-a"], [after]) == (entry["before"]["roles"], entry["after"]["roles"])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/users/register", {"name": "Eve", "password": PASSWORD}, 403),
        ("/users/links", {"secret": "twl_wrong", "password": PASSWORD}, 401),
        ("/auth/token", {"grant_type": "refresh_token", "refresh_token": "wrong"}, 401),
    ],
)
async def test_a_refusal_without_a_caller_is_an_entry(here: World, path: str, body: Any, status: int) -> None:
    """On the routes that need no key, too."""
    for _ in range(2):
        assert status == (await ask(here, None, "POST", path, json=body)).status_code
    await here.control.denials.write(last=True)
    refusals = [each for each in await entries(here) if each["caller"]["kind"] == "stranger"]
    assert {status} == {each["detail"]["status"] for each in refusals}
    assert 2 == sum(each["detail"]["count"] for each in refusals)


async def test_guesses_of_the_present_password_are_entries(here: World) -> None:
    """By the person whose token was shown: wrong ones, and those that had to wait."""
    eve = await person(here, "Eve", ("viewer", "team-a"))
    token = (await signed_in(here, "Eve"))["access_token"]
    guess = {"current": "a guess", "password": PASSWORD}
    for status in [422] * 5 + [429] * 2:
        assert status == (await ask(here, token, "POST", "/users/password", json=guess)).status_code
    await here.control.denials.write(last=True)
    found = await entries(here, "?action=auth.denied")
    assert {(eve["user_id"], "POST /api/v1/users/password")} == {
        (each["caller"]["id"], each["detail"]["route"]) for each in found
    }
    counted = Counter[int]()
    for each in found:
        counted[each["detail"]["status"]] += each["detail"]["count"]
    assert {422: 5, 429: 2} == counted
