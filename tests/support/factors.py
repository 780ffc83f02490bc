"""People with second factors, for tests of the API and of the pages."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import httpx2
import pyotp

from tests.support.app import World
from tests.support.authenticator import Authenticator
from tests.support.pages import Browser, Markup
from tests.support.people import PASSWORD, ask

ORIGIN: Final = "http://localhost:8470"
STEP_SECONDS: Final = 30.0


async def totp_of(here: World, token: str, name: str = "phone") -> pyotp.TOTP:
    """Enrol an app by the API, up to its first code."""
    begun = await ask(here, token, "POST", "/auth/second-factors", json={"password": PASSWORD, "name": name})
    assert 201 == begun.status_code, begun.text
    totp = pyotp.TOTP(begun.json()["seed_secret"])
    path = f"/auth/second-factors/{begun.json()['factor_id']}/confirm"
    confirmed = await ask(here, token, "POST", path, json={"code": await code_now(here, totp)})
    assert 200 == confirmed.status_code, confirmed.text
    return totp


async def code_now(here: World, totp: pyotp.TOTP, *, steps: int = 0) -> str:
    """The code of now, or of some steps later."""
    return totp.at(await here.store.now(), counter_offset=steps)


async def challenge_of(here: World, name: str, password: str = PASSWORD) -> dict[str, Any]:
    """The problem that answers a right password."""
    body = {"grant_type": "password", "username": name, "password": password}
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    problem: dict[str, Any] = answer.json()
    assert (401, "second_factor_required") == (answer.status_code, problem["code"]), answer.text
    return problem


async def show(here: World, challenge: str, code: str, **fields: Any) -> httpx2.Response:
    """The second step at the API."""
    body = {"grant_type": "second_factor", "challenge": challenge, "code": code, **fields}
    return await ask(here, None, "POST", "/auth/token", json=body)


def fields_of(page: str, action: str) -> dict[str, str]:
    """The fields of the form with this address, as a browser would send them."""
    start = page.index(f'action="{action}"')
    form = page[start : page.index("</form>", start)]
    return {each["name"]: each.get("value", "") for each in Markup(f"<form {form}").named("input") if "name" in each}


def options_of(page: str, action: str) -> dict[str, Any]:
    """The options of passkeys in the form with this address."""
    (form,) = (each for each in Markup(page).named("form") if each.get("action") == action and "data-options" in each)
    found: dict[str, Any] = json.loads(form["data-options"])
    return found


def seed_of(page: str) -> str:
    """The key that a page shows to type into an app."""
    found = re.search(r">([A-Z2-7]{32})<", page)
    assert found is not None, page
    return found[1]


def recovery_of(page: str) -> list[str]:
    """The recovery codes that a page shows."""
    return re.findall(r"<li>((?:[0-9a-z]{4}-){5}[0-9a-z]{4})</li>", page)


async def register(browser: Browser, authenticator: Authenticator, name: str = "key") -> httpx2.Response:
    """Register a passkey on the page Security."""
    page = await browser.post("/security/passkeys/begin", {"password": PASSWORD})
    assert 200 == page.status_code, page.text
    fields = fields_of(page.text, "/security/passkeys")
    response = authenticator.create(options_of(page.text, "/security/passkeys"), ORIGIN)
    return await browser.post("/security/passkeys", {**fields, "name": name, "response": response})


async def enrol_codes(browser: Browser, here: World, name: str = "phone") -> tuple[pyotp.TOTP, list[str]]:
    """Enrol an app on the page Security; the recovery codes, if it is the first factor."""
    page = await browser.post("/security/codes/begin", {"password": PASSWORD, "name": name})
    assert 200 == page.status_code, page.text
    totp = pyotp.TOTP(seed_of(page.text))
    fields = fields_of(page.text, "/security/codes")
    done = await browser.post("/security/codes", {**fields, "code": await code_now(here, totp)})
    assert done.status_code in (200, 303), done.text
    return totp, recovery_of(done.text)
