"""Attacks on the pages by other sites: planted sessions, addresses that lead elsewhere, forms from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY
from tests.support.pages import Rig, pages
from tests.support.people import ask, person
from tickwise.web.sessions import KNOWN_SECONDS
from tickwise.web.views import PAGES

ELSEWHERE: Final = (
    "https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "/\t/evil.example",
    "/\n/evil.example", " //evil.example", "/\u200b/evil.example", "///evil.example", "https:evil.example",
    "javascript:alert(1)", "data:text/html,x", "//[evil.example", "",
)  # fmt: skip
FROM_ELSEWHERE: Final = {
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another host of the site": {"Sec-Fetch-Site": "same-site"},
    "an old browser": {"Sec-Fetch-Site": "", "Origin": "https://evil.example"},
    "a page that hides its origin": {"Sec-Fetch-Site": "", "Origin": "null"},
    "no word of where": {"Sec-Fetch-Site": ""},
}
FORMS: Final = [page for page in PAGES if page.method not in ("GET", "HEAD")]


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


@probe(10, stopped_by="a sign-in makes a new session, and ends the one of before")
async def test_a_session_is_planted_before_the_sign_in(rig: Rig) -> None:
    """The attacker's own session, and a made-up one, in the browser of a victim who then signs in."""
    mallory, victim = await rig.signed_in("Mallory", ("viewer", "default")), rig.browser(address="127.9.9.9")
    await person(rig.here, "Ada", ("admin", "default"))
    assert mallory.cookie is not None
    name = mallory.cookie.partition("=")[0]
    for planted in (mallory.cookie, f"{name}=twc_{'a' * 43}"):
        victim.cookie = planted
        assert 303 == (await victim.sign_in("Ada")).status_code
        assert victim.cookie not in (None, planted)
        assert "Ada" in (await victim.get("/jobs")).text
        await rig.here.clock.sleep(KNOWN_SECONDS + 1)
        mallory.cookie = planted
        answer = await mallory.get("/jobs")
        assert (303, True) == (answer.status_code, answer.headers["location"].startswith("/login"))


@probe(10, stopped_by="a link opens no session for a page of another server")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_link_of_another_is_opened_in_the_browser_of_a_victim(rig: Rig, site: str) -> None:
    """A page of another server leads the browser of an administrator to the attacker's own link: what they type then
    would be in the attacker's account.

    The link is not used up, and works where it is opened by itself.
    """
    victim = await rig.signed_in("Root", ("admin", "*"))
    before = victim.cookie
    link = str((await ask(rig.here, ADMIN_KEY, "POST", "/auth/links")).json()["link"])
    answer = await victim.get(link, **{"Sec-Fetch-Site": site})
    assert (403, False) == (answer.status_code, "set-cookie" in answer.headers)
    assert "tickwise open" in answer.text
    assert (before, 200) == (victim.cookie, (await victim.get("/jobs")).status_code)
    assert 303 == (await rig.browser().get(link, **{"Sec-Fetch-Site": "none"})).status_code


@probe(10, stopped_by="an address that is not of these pages leads to the first one")
@pytest.mark.parametrize("back", ELSEWHERE)
async def test_a_sign_in_is_to_lead_elsewhere(rig: Rig, back: str) -> None:
    """`next=` names another server: in the form, in the address of the sign-in of somebody who is signed in, and in the
    form that is shown."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser()
    shown = await browser.get(f"/login?next={quote(back, safe='')}")
    assert (200, False) == (shown.status_code, "evil.example" in shown.text)
    assert "/" == (await browser.sign_in("Ada", next=back)).headers["location"]
    assert "/" == (await browser.get(f"/login?next={quote(back, safe='')}")).headers["location"]


@probe(10, stopped_by="a form counts only if the browser says that a page of ours sent it")
@pytest.mark.parametrize("origin", FROM_ELSEWHERE)
async def test_each_form_is_sent_from_another_site(rig: Rig, origin: str) -> None:
    """With the session of an administrator of everything; nothing is in the audit log behind it."""
    browser = await rig.signed_in("Root", ("admin", "*"))
    before = (await ask(rig.here, ADMIN_KEY, "GET", "/audit?limit=100")).json()
    assert len(FORMS) > 50
    for page in FORMS:
        path = page.path.replace("{", "").replace("}", "")
        answer = await browser.post(path, {"name": "x", "value": "x"}, **FROM_ELSEWHERE[origin])
        assert 403 == answer.status_code, (page.name, answer.status_code)
        assert "set-cookie" not in answer.headers, page.name
    changes = [
        each for each in (await ask(rig.here, ADMIN_KEY, "GET", "/audit?limit=100")).json() if each not in before
    ]
    assert [] == [each for each in changes if "refused" not in each["action"] and "denied" not in each["action"]]
