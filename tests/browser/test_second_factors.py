"""Second factors in a real browser, with Chromium's virtual authenticator: a passkey is made, shown after the password
and in place of it; codes of an app and recovery codes without scripts; a role that requires a factor."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyotp
import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.conftest import PASSWORD, Open, World, axe
from tests.support.local_up import local_up

NAMES: Final = {"ada": "operator", "vera": "viewer", "root": "admin", "tess": "viewer"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A Tickwise that requires a second factor of administrators, under the name of a host: passkeys need one."""
    folder = tmp_path_factory.mktemp("factors") / "data"
    with local_up(folder, TICKWISE_SECOND_FACTOR="required:admin") as up:
        world = World.__new__(World)
        world.up = up
        world.url = up.url.replace("127.0.0.1", "localhost")
        from tickwise.sdk.client import Client

        world.client = Client(up.url, up.key)
        for name, role in NAMES.items():
            body = {"name": name, "password": PASSWORD, "roles": [{"role": role, "namespace": "default"}]}
            world.client.request("POST", "/users", body=body)
        yield world
        world.client.close()


def authenticator(page: Page, *, verifies: bool = True) -> tuple[Any, str]:
    """A virtual authenticator of the page's browser, and its id."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": verifies, "automaticPresenceSimulation": True,
    }  # fmt: skip
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, added["authenticatorId"]


def sign_in(page: Page, name: str) -> None:
    """Send name and password."""
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", PASSWORD)
    page.click("button:text-is('Sign in')")


def picture(page: Page, name: str) -> None:
    """Keep a picture, where a folder is named for them."""
    folder = os.environ.get("TICKWISE_TEST_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def recovery_codes(page: Page) -> list[str]:
    """Those that the page shows."""
    return page.locator(".codes li").all_inner_texts()


def code_of(page: Page) -> pyotp.TOTP:
    """The app, by the key that the page shows."""
    page.click("summary:has-text('Or type the key')")
    found = re.search(r"[A-Z2-7]{32}", page.inner_text("main"))
    assert found is not None
    return pyotp.TOTP(found[0])


def next_code(totp: pyotp.TOTP) -> str:
    """A code of the step after the present one: that of now may be used up."""
    return totp.at(time.time(), counter_offset=1)


def test_a_passkey_is_made_and_signs_in_with_and_without_the_password(opened: Open, here: World) -> None:
    """By the pages and their script alone. The counter of the authenticator grows."""
    page = opened("/login", link=False, expects="status of 401")
    session, device = authenticator(page)
    sign_in(page, "ada")
    page.click("summary:has-text('ada')")
    page.click("a:text-is('Security')")
    assert axe(page) == []
    picture(page, "security-none")
    page.click("summary:has-text('Add a passkey')")
    page.fill("details[open] input[name=password]", PASSWORD)
    page.click("details[open] button:has-text('Go on')")
    page.fill("main input[name=name]", "laptop")
    assert axe(page) == []
    picture(page, "security-passkey")
    page.click("button:has-text('Make a passkey')")
    page.wait_for_selector(".codes")
    assert 10 == len(recovery_codes(page))
    assert axe(page) == []
    picture(page, "recovery-codes")
    page.click("text=I have kept them")
    assert "laptop" in page.inner_text("main")
    picture(page, "security-one")
    assert axe(page) == []
    (credential,) = session.send("WebAuthn.getCredentials", {"authenticatorId": device})["credentials"]
    assert ("localhost", True) == (credential["rpId"], credential["isResidentCredential"])

    page.click("summary:has-text('ada')")
    page.click("button:text-is('Sign out')")
    sign_in(page, "ada")
    page.wait_for_selector("text=The second step")
    assert axe(page) == []
    picture(page, "second-step")
    page.click("button:has-text('Use a passkey')")
    page.wait_for_selector("nav.side")

    page.click("summary:has-text('ada')")
    page.click("button:text-is('Sign out')")
    picture(page, "login-passkey")
    page.click("button:has-text('Sign in with a passkey')")
    page.wait_for_selector("nav.side")
    assert "ada" in page.inner_text("header")

    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.click("summary:has-text('ada')")
    page.click("button:text-is('Sign out')")
    page.click("button:has-text('Sign in with a passkey')")
    page.wait_for_selector("[data-passkey-said]:not(:empty)")
    assert page.url.endswith("/login")


def test_an_app_and_recovery_codes_work_without_scripts(
    opened: Open, here: World, context: Callable[..., BrowserContext]
) -> None:
    """Enrolled, asked for, wrong, right; a recovery code; the same again."""
    page = opened("/login", link=False, among=context(java_script_enabled=False), expects="status of 4")
    sign_in(page, "vera")
    page.goto(here.url + "/security")
    page.click("summary:has-text('Add an app')")
    page.fill("details[open] input[name=name]", "phone")
    page.fill("details[open] input[name=password]", PASSWORD)
    page.click("details[open] button:has-text('Go on')")
    box = page.locator("svg.qr").bounding_box()
    assert box is not None
    assert box["width"] > 150
    totp = code_of(page)
    picture(page, "security-codes")
    page.fill("input[name=code]", totp.now())
    page.click("button:has-text('Confirm')")
    codes = recovery_codes(page)
    assert 10 == len(codes)
    for shown, ends in (("000000", "step"), (next_code(totp), "in"), (codes[0], "in"), (codes[0], "step")):
        page.context.clear_cookies()
        page.goto(here.url + "/login")
        sign_in(page, "vera")
        page.fill("input[name=code]", shown)
        page.click("button:has-text('Go on')")
        page.wait_for_selector("nav.side, [role=alert]")
        assert ends == ("in" if page.locator("nav.side").count() else "step"), shown
    picture(page, "second-step-wrong")


@pytest.mark.parametrize("name", ["root"])
def test_an_administrator_has_to_enrol_before_anything_else(opened: Open, here: World, name: str) -> None:
    """And is in afterwards, on a phone too."""
    page = opened("/login?next=/users", link=False, viewport={"width": 390, "height": 844})
    authenticator(page)
    sign_in(page, name)
    page.wait_for_selector("text=Enrol a second factor")
    assert axe(page) == []
    picture(page, "enrol")
    other = page.context.new_page()
    other.goto(here.url + "/users")
    assert "/login" in other.url
    other.close()
    page.click("button:has-text('With an app')")
    page.wait_for_selector("svg.qr")
    assert axe(page) == []
    picture(page, "enrol-codes")
    page.goto(here.url + "/login?next=/users")
    sign_in(page, name)
    page.click("button:has-text('With a passkey')")
    page.click("button:has-text('Make a passkey')")
    page.wait_for_selector(".codes")
    assert 10 == len(recovery_codes(page))
    page.click("text=I have kept them")
    assert page.url.endswith("/users")


def test_at_an_address_of_numbers_there_is_no_button(opened: Open, here: World) -> None:
    """No browser makes passkeys there; the page says where they work."""
    page = opened("/login", link=False)
    page.goto(here.up.url + "/login")
    assert 0 == page.locator("text=Sign in with a passkey").count()
    sign_in(page, "tess")
    page.wait_for_selector("nav.side")
    page.goto(here.up.url + "/security")
    assert "open the pages by the name of a host" in page.inner_text("main")
