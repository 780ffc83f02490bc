"""The page on which a person approves a terminal: what it shows, and that a link alone gives nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY
from tests.support.pages import Browser, Markup, Rig, pages
from tests.support.people import ask, signing_key
from tickwise.testing.clock import VirtualClock

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages(clock=VirtualClock()) as made:
        await made.here.control.bearers.sign_with(signing_key())
        yield made


async def begun(rig: Rig, **fields: Any) -> dict[str, Any]:
    """The codes of a terminal."""
    answer = await ask(rig.here, None, "POST", "/auth/device", json={"client": "tickwise of ada on laptop", **fields})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def state(rig: Rig, codes: dict[str, Any]) -> str:
    """What the terminal is told."""
    body = {"grant_type": GRANT, "device_code": codes["device_code"]}
    return str((await ask(rig.here, None, "POST", "/auth/token", json=body)).json().get("code", "tokens"))


@pytest_asyncio.fixture
async def ada(rig: Rig) -> Browser:
    return await rig.signed_in("Ada", ("developer", "default"))


async def test_a_link_with_the_code_approves_nothing(rig: Rig, ada: Browser) -> None:
    """It shows who asks, from where and for what; the person has to say that the code is theirs."""
    codes = await begun(rig, scope="jobs:read", namespace="default")
    page = await ada.get(f"/device?user_code={codes['user_code']}")
    assert 200 == page.status_code
    words = Markup(page.text).text
    for said in (codes["user_code"], "tickwise of ada on laptop", "127.0.0.1", "jobs:read", "default", "Ada"):
        assert said in words
    assert "checked" not in {name for _, attributes in Markup(page.text).elements for name in attributes}
    assert "authorization_pending" == await state(rig, codes)


async def test_an_approval_needs_the_word_that_the_code_is_the_same(rig: Rig, ada: Browser) -> None:
    """The button alone is not enough. With the word, the terminal is signed in."""
    codes = await begun(rig)
    form = {"user_code": codes["user_code"], "verdict": "approve"}
    assert 422 == (await ada.post("/device", form)).status_code
    assert "authorization_pending" == await state(rig, codes)
    done = await ada.post("/device", {**form, "same": "yes"})
    assert (303, "/device?done=approved") == (done.status_code, done.headers["location"])
    assert "tokens" == await state(rig, codes)
    assert "signed in as you" in (await ada.get("/device?done=approved")).text


async def test_a_person_denies_a_terminal(rig: Rig, ada: Browser) -> None:
    """The terminal is told."""
    codes = await begun(rig)
    done = await ada.post("/device", {"user_code": codes["user_code"], "verdict": "deny"})
    assert (303, "/device?done=denied") == (done.status_code, done.headers["location"])
    assert "access_denied" == await state(rig, codes)


async def test_a_form_from_another_site_approves_nothing(rig: Rig, ada: Browser) -> None:
    """Also with the right code and the word."""
    codes = await begun(rig)
    form = {"user_code": codes["user_code"], "verdict": "approve", "same": "yes"}
    assert 403 == (await ada.post("/device", form, **{"Sec-Fetch-Site": "cross-site"})).status_code
    assert "authorization_pending" == await state(rig, codes)


async def test_nobody_approves_without_a_sign_in(rig: Rig) -> None:
    """The way leads through the sign-in and back to the code."""
    codes = await begun(rig)
    browser = rig.browser()
    answer = await browser.get(f"/device?user_code={codes['user_code']}")
    assert (303, f"/login?next=%2Fdevice%3Fuser_code%3D{codes['user_code']}") == (
        answer.status_code, answer.headers["location"],
    )  # fmt: skip


async def test_a_key_that_opened_the_pages_approves_nothing(rig: Rig) -> None:
    """`tickwise open` signs in as a key."""
    codes = await begun(rig)
    browser = rig.browser()
    link = (await ask(rig.here, ADMIN_KEY, "POST", "/auth/links")).json()["link"]
    assert 303 == (await browser.get(link)).status_code
    form = {"user_code": codes["user_code"], "verdict": "approve", "same": "yes"}
    assert 403 == (await browser.post("/device", form)).status_code
    assert "authorization_pending" == await state(rig, codes)


async def test_a_wrong_code_is_told_without_a_hint(rig: Rig, ada: Browser) -> None:
    """One answer for a code that never was, one that was decided, and what is none. Many of them wait."""
    codes = await begun(rig)
    await ada.post("/device", {"user_code": codes["user_code"], "verdict": "deny"})
    texts = set()
    for code in ("BBBB-BBBB", codes["user_code"], "hello"):
        page = await ada.get(f"/device?user_code={code}")
        assert 404 == page.status_code
        texts.add(Markup(page.text).text.replace(code, ""))
    assert 1 == len(texts)
    statuses = [(await ada.get("/device?user_code=BBBB-BBBB")).status_code for _ in range(6)]
    assert 429 == statuses[-1]


@pytest.mark.usefixtures("ada")
async def test_a_terminal_elsewhere_is_pointed_out(rig: Rig) -> None:
    """A person at another address than the terminal reads that somebody else may have sent the code."""
    codes = await begun(rig)
    near = rig.browser()
    assert 303 == (await near.sign_in("Ada")).status_code
    page = await near.get(f"/device?user_code={codes['user_code']}")
    assert "somebody else may have sent you this code" not in Markup(page.text).text
    far = rig.browser(address="127.9.9.9")
    assert 303 == (await far.sign_in("Ada")).status_code
    page = await far.get(f"/device?user_code={codes['user_code']}")
    assert "somebody else may have sent you this code" in Markup(page.text).text


async def test_the_name_of_a_terminal_is_text(rig: Rig, ada: Browser) -> None:
    """Markup in it is shown, and does nothing."""
    codes = await begun(rig, client="<script>alert(1)</script>\u202e")
    page = await ada.get(f"/device?user_code={codes['user_code']}")
    assert "<script>alert(1)" not in page.text
    assert "<script>alert(1)</script>?" in Markup(page.text).text.replace("\u200b", "")
