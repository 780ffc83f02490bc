"""Who signs in, how a session begins and ends, and what a form from elsewhere does: nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, API
from tests.support.pages import LOCAL, Browser, Markup, Rig, pages
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key
from tickwise.control.people.browsers import LINK_SECONDS
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.ports.audit import AuditQuery, AuditRow
from tickwise.testing.clock import VirtualClock
from tickwise.web.sessions import KNOWN_SECONDS

HOUR = 3_600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def rig(clock: VirtualClock) -> AsyncIterator[Rig]:
    async with pages(clock=clock) as made:
        yield made


async def _link(rig: Rig, key: str = ADMIN_KEY) -> str:
    made = await ask(rig.here, key, "POST", "/auth/links")
    assert 201 == made.status_code, made.text
    return str(made.json()["link"])


async def test_a_password_begins_a_session_in_a_cookie_of_this_host_alone(rig: Rig) -> None:
    """No script reads it, no other host sets it, and it never leaves TLS or this machine."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser()
    answer = await browser.sign_in("Ada", next="/jobs?status=PAUSED")
    assert (303, "/jobs?status=PAUSED") == (answer.status_code, answer.headers["location"])
    said = answer.headers["set-cookie"]
    assert said.startswith("__Host-tickwise-")
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= {part.strip().lower() for part in said.split(";")}
    assert "domain" not in said.lower()
    page = await browser.get("/jobs")
    assert 200 == page.status_code
    assert "Ada" in Markup(page.text).words


async def test_nobody_sees_a_page_without_a_session(rig: Rig) -> None:
    """They are led to the sign-in, and back. A part of a page is refused, so that an open page can say so."""
    browser = rig.browser()
    answer = await browser.get("/jobs?name=a%26b")
    assert (303, "/login?next=%2Fjobs%3Fname%3Da%2526b") == (answer.status_code, answer.headers["location"])
    assert 401 == (await browser.get("/jobs", tickwise_part="live")).status_code
    browser.cookie = "__Host-tickwise-00000000=twc_made-up"
    assert 303 == (await browser.get("/jobs")).status_code


@pytest.mark.parametrize(
    "back", ["https://example.org/", "//example.org/", "/\\example.org", "javascript:alert(1)", "x"]
)
async def test_a_sign_in_leads_to_no_other_server(rig: Rig, back: str) -> None:
    """Whatever address comes with it."""
    await person(rig.here, "Ada", ("viewer", "default"))
    assert "/" == (await rig.browser().sign_in("Ada", next=back)).headers["location"]


@pytest.mark.parametrize(
    ("query", "goes_to"), [("?next=%2Fruns%3Fstatus%3DFAILED", "/runs?status=FAILED"), ("?done=out", "/"), ("", "/")]
)
async def test_who_is_signed_in_already_goes_on_from_the_sign_in(rig: Rig, query: str, goes_to: str) -> None:
    """The second of two tabs whose session had ended."""
    browser = await rig.signed_in("Ada", ("viewer", "default"))
    answer = await browser.get(f"/login{query}")
    assert (303, goes_to) == (answer.status_code, answer.headers.get("location"))


async def test_a_wrong_password_and_a_wrong_name_have_one_answer(rig: Rig) -> None:
    """The name that was typed comes back, the password does not. It is on record."""
    await person(rig.here, "Ada", ("viewer", "default"))
    texts = []
    for name in ("Ada", "Bob"):
        answer = await rig.browser().sign_in(name, OTHER_PASSWORD)
        assert (401, None) == (answer.status_code, answer.headers.get("set-cookie"))
        assert OTHER_PASSWORD not in answer.text
        texts.append(answer.text.replace(name, "").split("<main")[1])
    assert texts[0] == texts[1]
    assert [2] == [len(await _entries(rig, AuditAction.SIGN_IN_FAILED))]


async def test_many_wrong_passwords_slow_down_as_at_the_api(rig: Rig) -> None:
    """The pace is one for both ways in."""
    await person(rig.here, "Ada", ("viewer", "default"))
    await rig.here.control.bearers.sign_with(signing_key())
    statuses = [(await rig.browser().sign_in("Ada", OTHER_PASSWORD)).status_code for _ in range(6)]
    assert [401] * 5 + [429] == statuses
    body = {"grant_type": "password", "username": "Ada", "password": PASSWORD}
    assert 429 == (await ask(rig.here, None, "POST", "/auth/token", json=body)).status_code


async def test_each_sign_in_has_a_cookie_of_its_own_and_ends_the_one_before(rig: Rig) -> None:
    """A cookie that somebody planted before the sign-in is worth nothing after it."""
    browser = await rig.signed_in("Ada", ("viewer", "default"))
    before = browser.cookie
    await browser.sign_in("Ada")
    assert before != browser.cookie
    stale = rig.browser()
    stale.cookie = before
    assert 303 == (await _after(rig, stale, KNOWN_SECONDS)).status_code
    assert 200 == (await browser.get("/jobs")).status_code


async def test_a_sign_out_ends_the_session_at_once(rig: Rig) -> None:
    """Also for a copy of the cookie."""
    browser = await rig.signed_in("Ada", ("viewer", "default"))
    copy = rig.browser()
    copy.cookie = browser.cookie
    answer = await browser.post("/logout")
    assert (303, "/login", None) == (answer.status_code, answer.headers["location"], browser.cookie)
    assert 303 == (await copy.get("/jobs")).status_code
    signed = [
        (row.source.name, row.action) for row in await _entries(rig, None) if row.action.startswith("auth.signed")
    ]
    assert [("Ada", AuditAction.SIGNED_OUT), ("Ada", AuditAction.SIGNED_IN)] == signed


@pytest.mark.parametrize("ends", ["password", "deactivate", "revoke", "roles"])
async def test_what_ends_a_token_ends_a_session(rig: Rig, ends: str) -> None:
    """Within `KNOWN_SECONDS`, in every process: the store is asked again."""
    ada = await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser()
    await browser.sign_in("Ada")
    assert 200 == (await browser.get("/jobs")).status_code
    if ends in ("deactivate", "roles"):
        change: dict[str, Any] = {"active": False} if ends == "deactivate" else {"roles": []}
        answer = await rig.here.client.patch(f"{API}/users/{ada['user_id']}", json=change)
    else:
        await rig.here.control.bearers.sign_with(signing_key())
        token = (await signed_in(rig.here, "Ada"))["access_token"]
        if ends == "revoke":
            answer = await ask(rig.here, token, "DELETE", "/auth/sessions")
        else:
            body = {"current": PASSWORD, "password": OTHER_PASSWORD}
            answer = await ask(rig.here, token, "POST", "/users/password", json=body)
    assert answer.status_code < 300, answer.text
    assert KNOWN_SECONDS <= 4.0
    assert 303 == (await _after(rig, browser, KNOWN_SECONDS)).status_code


async def test_a_session_ends_when_nobody_uses_it(rig: Rig) -> None:
    """A page that renews itself keeps none alive."""
    browser = await rig.signed_in("Ada", ("viewer", "default"))
    for _ in range(13):
        answer = await _after(rig, browser, HOUR, tickwise_part="live")
    assert 401 == answer.status_code


async def test_a_session_that_is_used_goes_on_for_a_week(rig: Rig) -> None:
    """And no longer."""
    browser = await rig.signed_in("Ada", ("viewer", "default"))
    answers = [(await _after(rig, browser, 6 * HOUR)).status_code for _ in range(29)]
    assert [200] * 27 == answers[:27]
    assert 303 == answers[-1]


async def test_a_session_that_ends_in_a_form_loses_nothing_that_was_typed(rig: Rig) -> None:
    """The sign-in takes it along, and it comes back to be sent."""
    browser = await rig.signed_in("Ada", ("operator", "default"))
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "a", "every": "1h"})).json()["job_id"]
    typed = {"reason": 'until the "disk" is <full>', "until": "2099-01-01T10:00", "password": "secret thing"}
    other = rig.browser()
    other.cookie = browser.cookie
    await other.post("/logout")
    answer = await browser.post(f"/jobs/{job}/pause", typed)
    assert 401 == answer.status_code
    form = {each["name"]: each["value"] for each in Markup(answer.text).named("input") if each.get("type") == "hidden"}
    assert {"typed.reason", "typed.until", "next"} == set(form)
    again = await browser.sign_in("Ada", **form)
    assert 200 == again.status_code
    page = Markup(again.text)
    assert f"/jobs/{job}/pause" == page.named("form")[0]["action"]
    back = {each["name"]: each["value"] for each in page.named("input")}
    assert {"reason": typed["reason"], "until": typed["until"]} == back
    done = await browser.post(f"/jobs/{job}/pause", back)
    assert 303 == done.status_code
    assert typed["reason"] == (await rig.here.client.get(f"{API}/jobs/{job}")).json()["pause_reason"]


FROM_ELSEWHERE = {
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another host of the site": {"Sec-Fetch-Site": "same-site"},
    "an address that was typed": {"Sec-Fetch-Site": "none"},
    "an old browser on another page": {"Sec-Fetch-Site": "", "Origin": "https://example.org"},
    "a page that hides its origin": {"Sec-Fetch-Site": "", "Origin": "null"},
    "no browser": {"Sec-Fetch-Site": ""},
    "another port": {"Sec-Fetch-Site": "", "Origin": "http://127.0.0.1:9999"},
}


@pytest.mark.parametrize("headers", FROM_ELSEWHERE.values(), ids=FROM_ELSEWHERE.keys())
async def test_a_form_from_elsewhere_does_nothing(rig: Rig, headers: dict[str, str]) -> None:
    """Neither signs in nor out, nor changes anything. The refusal is on record."""
    browser = await rig.signed_in("Ada", ("operator", "default"))
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "a", "every": "1h"})).json()["job_id"]
    for path in (f"/jobs/{job}/pause", f"/jobs/{job}/run-now", "/logout", "/login"):
        answer = await browser.post(path, {"reason": "x", "username": "Ada", "password": PASSWORD}, **headers)
        assert 403 == answer.status_code, path
    assert "SCHEDULED" == (await rig.here.client.get(f"{API}/jobs/{job}")).json()["status"]
    assert 200 == (await browser.get("/jobs")).status_code


async def test_an_old_browser_is_known_by_the_origin_of_its_form(rig: Rig) -> None:
    """Without fetch metadata."""
    await person(rig.here, "Ada", ("viewer", "default"))
    form = {"username": "Ada", "password": PASSWORD}
    assert 303 == (await rig.browser().post("/login", form, **{"Sec-Fetch-Site": "", "Origin": LOCAL})).status_code


@pytest.mark.parametrize(
    ("address", "base", "allowed"),
    [
        ("127.0.0.1", LOCAL, True),
        ("::1", "http://localhost:8470", True),
        ("192.0.2.7", "https://tickwise.example.org", True),
        ("192.0.2.7", "http://tickwise.example.org:8470", False),
        ("127.0.0.1", "http://tickwise.example.org:8470", False),
        ("192.0.2.7", LOCAL, False),
    ],
)
async def test_a_password_is_taken_over_tls_or_on_this_machine(
    rig: Rig, address: str, base: str, allowed: bool
) -> None:
    """Elsewhere the page refuses it, and says why and what to do. A good cookie counts no more there."""
    known = await rig.signed_in("Ada", ("viewer", "default"))
    browser = rig.browser(address=address, base=base)
    page = await browser.get("/login")
    answer = await browser.sign_in("Ada")
    assert (200 if allowed else 403, 303 if allowed else 403) == (page.status_code, answer.status_code)
    if not allowed:
        assert not Markup(page.text).named("form")
        assert "TICKWISE_TLS_CERT_FILE" in page.text
        browser.cookie = known.cookie
        assert 303 == (await browser.get("/jobs")).status_code


async def test_a_proxy_that_ends_tls_is_trusted_where_the_settings_say_so() -> None:
    """The request comes as plain HTTP from it."""
    async with pages(tls_at_proxy=True) as rig:
        await person(rig.here, "Ada", ("viewer", "default"))
        browser = rig.browser(address="10.0.0.2", base="http://tickwise.example.org")
        assert 303 == (await browser.sign_in("Ada")).status_code


async def test_a_link_opens_the_pages_once(rig: Rig) -> None:
    """With the permissions of its key; used again, it opens nothing."""
    link = await _link(rig)
    browser = rig.browser()
    answer = await browser.get(link)
    assert (303, "/") == (answer.status_code, answer.headers["location"])
    assert 200 == (await browser.get("/audit")).status_code
    assert 401 == (await rig.browser().get(link)).status_code
    assert [("admin", "key")] == [
        (row.source.name, row.target_kind) for row in await _entries(rig, AuditAction.SIGNED_IN)
    ]


async def test_a_link_works_for_minutes(rig: Rig, clock: VirtualClock) -> None:
    """Then it is too old."""
    link = await _link(rig)
    await clock.advance(LINK_SECONDS + 1)
    assert 401 == (await rig.browser().get(link)).status_code


async def test_a_link_is_used_on_this_machine_alone(rig: Rig) -> None:
    """Also over TLS. A caller of another machine is given none."""
    link = await _link(rig)
    browser = rig.browser(address="192.0.2.7", base="https://tickwise.example.org")
    assert 401 == (await browser.get(link)).status_code
    assert 303 == (await rig.browser().get(link)).status_code


async def test_a_session_of_a_link_ends_with_its_key(rig: Rig) -> None:
    """Which is revoked."""
    key = await rig.here.client.post(f"{API}/keys", json={"name": "short", "scopes": ["jobs:read"]})
    browser = rig.browser()
    await browser.get(await _link(rig, key.json()["key"]))
    assert 200 == (await browser.get("/jobs")).status_code
    assert 403 == (await browser.get("/runs")).status_code
    assert 200 == (await rig.here.client.delete(f"{API}/keys/{key.json()['key_id']}")).status_code
    assert 303 == (await _after(rig, browser, KNOWN_SECONDS)).status_code


async def _after(rig: Rig, browser: Browser, seconds: float, **headers: str) -> httpx2.Response:
    clock = rig.here.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds + 0.1)
    return await browser.get("/jobs", **headers)


async def _entries(rig: Rig, action: AuditAction | None) -> list[AuditRow]:
    await rig.here.control.denials.write(last=True)
    query = AuditQuery(namespace=INSTALLATION, action=action, limit=50)
    return list(await rig.here.store.audit.find(query))
