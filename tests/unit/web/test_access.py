"""Each page, for each role, in each namespace: what the API refuses, the pages refuse."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.control.access import permissions_of
from tickwise.domain.audit import AuditAction
from tickwise.domain.permissions import EVERYTHING, ROLES, Role
from tickwise.ports.audit import AuditQuery
from tickwise.web.navigation import DOORS
from tickwise.web.page import WebPage
from tickwise.web.views import PAGES

SOME_ID = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"
OPEN = {
    "login", "sign_in", "open_link", "sign_out", "choose_password", "password_chosen", "display", "act", "act_done",
    "second_step", "passkey_options", "passkey_login", "proxy_login", "enrol_begin_codes", "enrol_begin_passkey",
    "enrol_confirm",
    "enrol_passkey", "provider_begin", "provider_callback", "provider_out",
}  # fmt: skip
OWN = {
    "security", "security_codes_begin", "security_codes", "security_passkeys_begin", "security_passkeys",
    "security_change", "security_recovery_codes",
}  # fmt: skip
"""The second factors of the visitor."""
FOR_INSTALLATION = {"settings", "namespace_quotas"}
"""A permission in one namespace is not enough."""
FOR_ALL = {"overview", "find", "alive", "device", "device_decide", *OWN}
"""Any visitor may open them: what they may not see is left out."""


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        await made.here.key("in-team-a", "jobs:read", namespace="team-a")
        yield made


async def _ask(browser: Browser, page: WebPage, namespace: str = "") -> int:
    path = page.path
    path = re.sub(r"\{[^}]*\}", SOME_ID, path)
    path += f"?namespace={namespace}" if namespace else ""
    method = "HEAD" if page.is_stream else page.method  # a stream would not end
    answer = await (browser.post(path) if method == "POST" else browser.ask(method, path))
    return answer.status_code


def _guarded() -> list[WebPage]:
    return [page for page in PAGES if page.name not in OPEN | FOR_ALL]


def test_each_page_says_what_it_needs() -> None:
    """But for the ways in and out, and the first page."""
    assert {page.name for page in PAGES if not page.control} == OPEN | FOR_ALL
    assert {page.name for page in PAGES if page.is_open} == OPEN
    assert len({page.name for page in PAGES}) == len(PAGES)
    assert len({(page.method, page.path) for page in PAGES}) == len(PAGES)


async def test_each_page_is_for_the_roles_whose_permissions_it_takes(rig: Rig) -> None:
    """In the namespace of the role: what the role lacks is 403. In another one, everything is."""
    for role in Role:
        browser = await rig.signed_in(f"one-{role}", (role, "team-a"))
        for page in _guarded():
            needed = [permissions_of(method) for method in page.control]
            may = page.name not in FOR_INSTALLATION and all(
                EVERYTHING in ROLES[role] or not ROLES[role].isdisjoint(each) for each in needed
            )
            status = await _ask(browser, page, "team-a")
            assert (status == 403) == (not may), (role, page.name, status)
            assert status < 500, (role, page.name)
            assert 403 == await _ask(browser, page, "default"), (role, page.name)


async def test_nobody_without_a_role_sees_anything(rig: Rig) -> None:
    """But the first page, with nothing in it, and a navigation that leads nowhere else."""
    browser = await rig.signed_in("nobody")
    for page in _guarded():
        assert 403 == await _ask(browser, page), page.name
    first = Markup((await browser.get("/")).text)
    links = {each["href"] for each in first.named("a") if each["href"].startswith("/")}
    assert links == {"/", "/find", "/security"}


async def test_no_page_leads_where_its_visitor_may_not_go(rig: Rig) -> None:
    """Each address of each navigation and of the lists answers 200, and each form is one that the visitor may send."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "a", "every": "1h"})).json()["job_id"]
    for role in Role:
        browser = await rig.signed_in(f"walks-{role}", (role, "default"))
        for path in ("/", f"/jobs/{job}", *(door.path for door in DOORS)):
            answer = await browser.get(path)
            if answer.status_code == 403:
                continue
            found = Markup(answer.text)
            for link in {each["href"] for each in found.named("a") if each["href"].startswith("/")}:
                assert 200 == (await browser.get(link)).status_code, (role, path, link)
            sent = {each["action"] for each in found.named("form") if each.get("method") == "post"} - {"/logout"}
            for action in sent:
                assert (await browser.post(action, {"reason": "x"})).status_code != 403, (role, path, action)


async def test_a_refusal_is_on_record_as_one_of_the_api_is(rig: Rig) -> None:
    """With the route, by the caller."""
    browser = await rig.signed_in("denied", ("viewer", "team-a"))
    assert 403 == (await browser.get("/audit?namespace=team-a")).status_code
    await rig.here.control.denials.write(last=True)
    rows = await rig.here.store.audit.find(
        AuditQuery(namespace="team-a", action=AuditAction.DENIED, actor="denied", limit=10)
    )
    assert ["GET /audit" in (row.detail or "") + (row.target or "") for row in rows] == [True]


async def test_what_a_namespace_holds_is_seen_from_there_alone(rig: Rig) -> None:
    """A job of another one is 404, whoever asks."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "hidden", "every": "1h"})).json()["job_id"]
    browser = await rig.signed_in("elsewhere", ("admin", "team-a"))
    assert 404 == (await browser.get(f"/jobs/{job}?namespace=team-a")).status_code
    assert 404 == (await browser.post(f"/jobs/{job}/pause?namespace=team-a", {"reason": "x"})).status_code
    assert 403 == (await browser.get("/jobs?namespace=nowhere")).status_code
    page = Markup((await browser.get("/jobs?namespace=team-a")).text)
    assert "hidden" not in page.words


async def test_a_permission_for_some_labels_shows_these_jobs_alone(rig: Rig) -> None:
    """As in the API."""
    for team in ("red", "blue"):
        body = {"name": f"job of {team}", "every": "1h", "labels": {"team": team}}
        assert 201 == (await rig.here.client.post(f"{API}/jobs", json=body)).status_code
    person: dict[str, Any] = {"name": "Red", "password": "four quiet herons wade", "roles": [
        {"role": "operator", "namespace": "default", "labels": {"team": "red"}}]}  # fmt: skip
    assert 201 == (await rig.here.client.post(f"{API}/users", json=person)).status_code
    browser = rig.browser()
    assert 303 == (await browser.sign_in("Red")).status_code
    words = Markup((await browser.get("/jobs")).text).words
    assert "job of red" in words
    assert "job of blue" not in words
    assert 200 == (await browser.get("/")).status_code
