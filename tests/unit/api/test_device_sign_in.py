"""A terminal is signed in by a person in a browser: the codes, the waiting, and what ends it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key
from tickwise.control.people.devices import ALPHABET, CODE_SECONDS, typed_code
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict, Forbidden, NotFound, SignInPaced
from tickwise.domain.model import Principal
from tickwise.ports.audit import AuditQuery
from tickwise.testing.clock import VirtualClock

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made


async def begun(here: World, **fields: Any) -> dict[str, Any]:
    """The codes of a terminal."""
    answer = await ask(here, None, "POST", "/auth/device", json={"client": "a terminal", **fields})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def polled(here: World, device_code: str) -> tuple[int, dict[str, Any]]:
    """The status and the answer of a poll."""
    answer = await ask(here, None, "POST", "/auth/token", json={"grant_type": GRANT, "device_code": device_code})
    return answer.status_code, answer.json()


async def principal(here: World, name: str = "Ada", **fields: Any) -> Principal:
    """A person as the pages have them."""
    made = await person(here, name, ("developer", "default"), **fields)
    token = (await signed_in(here, name))["access_token"]
    caller = (await here.control.bearers.find(token)).caller
    assert str(caller.user_id) == made["user_id"]
    return caller.principal().with_origin("192.0.2.1", "r-1")


async def test_a_person_signs_a_terminal_in(here: World, clock: VirtualClock) -> None:
    """It waits, is told so, and has the tokens of the person once they approved. The session is renewed as any
    other."""
    codes = await begun(here)
    assert {"verification_uri": "http://tickwise/device", "expires_in": 600, "interval": 5}.items() <= codes.items()
    assert f"http://tickwise/device?user_code={codes['user_code']}" == codes["verification_uri_complete"]
    status, problem = await polled(here, codes["device_code"])
    assert (400, "authorization_pending", "authorization_pending") == (status, problem["code"], problem["error"])
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=True)
    await clock.advance(6.0)
    status, tokens = await polled(here, codes["device_code"])
    assert (200, "Bearer", "Ada") == (status, tokens["token_type"], tokens["user"]["name"])
    me = (await ask(here, tokens["access_token"], "GET", "/auth/me")).json()
    assert "Ada" == me["name"]
    body = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert 200 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code


async def test_a_device_code_gives_tokens_once(here: World, clock: VirtualClock) -> None:
    """Shown again, it is refused."""
    codes = await begun(here)
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=True)
    assert 200 == (await polled(here, codes["device_code"]))[0]
    await clock.advance(6.0)
    assert 401 == (await polled(here, codes["device_code"]))[0]


async def test_a_code_is_decided_once(here: World) -> None:
    """Not by the same person again, not by another one, and not the other way round."""
    codes, ada = await begun(here), await principal(here)
    eve = await principal(here, "Eve")
    await here.control.devices.decide(ada, codes["user_code"], approved=True)
    for who, approved in ((ada, True), (ada, False), (eve, True)):
        with pytest.raises((NotFound, Conflict)):
            await here.control.devices.decide(who, codes["user_code"], approved=approved)
    assert "Ada" == (await polled(here, codes["device_code"]))[1]["user"]["name"]


async def test_a_denied_terminal_gets_nothing(here: World) -> None:
    """And is told so."""
    codes = await begun(here)
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=False)
    status, problem = await polled(here, codes["device_code"])
    assert (400, "access_denied") == (status, problem["error"])


async def test_a_code_ends_after_ten_minutes(here: World, clock: VirtualClock) -> None:
    """Nobody approves it then."""
    codes, ada = await begun(here), await principal(here)
    await clock.advance(CODE_SECONDS + 1)
    with pytest.raises(NotFound):
        await here.control.devices.decide(ada, codes["user_code"], approved=True)
    status, problem = await polled(here, codes["device_code"])
    assert (400, "expired_token") == (status, problem["error"])


async def test_a_terminal_that_asks_too_often_is_told_to_slow_down(here: World, clock: VirtualClock) -> None:
    """By five seconds each time."""
    codes = await begun(here)
    found = [(await polled(here, codes["device_code"]))[1]["error"] for _ in range(2)]
    await clock.advance(6.0)
    found.append((await polled(here, codes["device_code"]))[1]["error"])
    await clock.advance(16.0)
    found.append((await polled(here, codes["device_code"]))[1]["error"])
    assert ["authorization_pending", "slow_down", "slow_down", "authorization_pending"] == found


async def test_the_tokens_are_bounded_as_the_terminal_asked(here: World) -> None:
    """By permissions and by a namespace."""
    codes = await begun(here, scope="jobs:read runs:read", namespace="default")
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=True)
    token = (await polled(here, codes["device_code"]))[1]["access_token"]
    me = (await ask(here, token, "GET", "/auth/me")).json()
    assert (["jobs:read", "runs:read"], "default") == (me["permissions"], me["namespace"])


@pytest.mark.parametrize("body", [{"client": "x", "scope": "all"}, {"client": ""}, {}, {"client": "x", "user": "Ada"}])
async def test_a_request_that_cannot_be_read_is_refused(here: World, body: dict[str, Any]) -> None:
    """A permission that there is not, a name that is empty, a field that is unknown."""
    answer = await ask(here, None, "POST", "/auth/device", json=body)
    assert 422 == answer.status_code, answer.text


async def test_a_namespace_without_a_permission_is_refused_at_the_terminal(here: World) -> None:
    """The answer does not say whether it is there."""
    codes = await begun(here, namespace="elsewhere")
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=True)
    status, problem = await polled(here, codes["device_code"])
    assert (400, "/namespace") == (status, problem["pointer"])


async def test_a_password_that_changes_meanwhile_ends_the_approval(here: World) -> None:
    """As it ends every session that began before."""
    codes, ada = await begun(here), await principal(here)
    await here.control.devices.decide(ada, codes["user_code"], approved=True)
    token = (await signed_in(here, "Ada"))["access_token"]
    body = {"current": PASSWORD, "password": OTHER_PASSWORD}
    assert 200 == (await ask(here, token, "POST", "/users/password", json=body)).status_code
    assert 401 == (await polled(here, codes["device_code"]))[0]


async def test_a_key_approves_no_terminal(here: World) -> None:
    """Only a person lends what they may do."""
    codes = await begun(here)
    found = await here.control.credentials.find(_digest(ADMIN_KEY))
    assert found is not None
    with pytest.raises(Forbidden):
        await here.control.devices.decide(found.caller.principal(), codes["user_code"], approved=True)


def _digest(key: str) -> bytes:
    from hashlib import sha256

    return sha256(key.encode()).digest()


async def test_guesses_of_codes_wait_longer_and_longer(here: World, clock: VirtualClock) -> None:
    """Also from other networks: a person has few guesses. A hundred minutes give about a dozen of 20 ** 8 codes."""
    await begun(here)
    ada, tried = await principal(here), 0
    for number in range(600):
        who = ada.with_origin(f"192.0.2.{number % 250}", "r-1")
        try:
            await here.control.devices.find(who, "BBBB-BBBB")
        except NotFound:
            tried += 1
        except SignInPaced:
            pass
        await clock.advance(10.0)
    assert 5 <= tried <= 20


async def test_requests_from_one_address_are_paced(here: World) -> None:
    """A flood of them keeps no room from others."""
    answers = [(await ask(here, None, "POST", "/auth/device", json={"client": "x"})).status_code for _ in range(30)]
    assert {200, 429} == set(answers)


async def test_wrong_device_codes_are_refused(here: World) -> None:
    """Of another form without a query, of the right form as unknown, and a code that people see is none."""
    codes = await begun(here)
    for shown in (codes["user_code"], "x", "twd_" + "0" * 49, codes["device_code"][:-1] + "_"):
        assert 401 == (await polled(here, shown))[0], shown
    status, problem = await polled(here, "")
    assert 422 == status or 400 == status, problem


async def test_codes_are_drawn_evenly_from_letters_without_vowels(here: World) -> None:
    """Eight of twenty letters: 34 bits."""
    letters: Counter[str] = Counter()
    for _ in range(18):
        code = (await begun(here))["user_code"]
        assert (4, 9) == (code.index("-"), len(code))
        letters.update(code.replace("-", ""))
    assert set(letters) <= set(ALPHABET)
    assert len(letters) >= 15
    assert 2**34 < len(ALPHABET) ** 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BCDF-GHJK", "BCDFGHJK"), ("bcdfghjk", "BCDFGHJK"), (" bcdf ghjk ", "BCDFGHJK"), ("BCDF–GHJK", "BCDFGHJK"),
        ("BCDFGHJ", None), ("BCDFGHJKL", None), ("ACDFGHJK", None), ("", None), ("\uff22CDFGHJK", None),
        ("x" * 99, None),
    ],
)  # fmt: skip
def test_a_code_is_read_as_people_type_it(text: str, expected: str | None) -> None:
    """In any case, with blanks or hyphens."""
    assert expected == typed_code(text)


async def test_an_approval_is_on_record_with_the_address_that_asked(here: World) -> None:
    """Who approved, what, and for whom."""
    codes = await begun(here)
    await here.control.devices.decide(await principal(here), codes["user_code"], approved=True)
    rows = await here.store.audit.find(AuditQuery(namespace=None, action=AuditAction.DEVICE_APPROVED, limit=5))
    assert 1 == len(rows)
    assert ("Ada", "192.0.2.1") == (rows[0].source.name, rows[0].source.address)
    assert "127.0.0.1" == json.loads(rows[0].detail or "{}")["asked_from"]
