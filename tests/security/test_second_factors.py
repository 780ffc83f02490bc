"""Second factors: codes that are replayed, guessed and of others; passkeys of elsewhere, removed and copied; and every
way around the second step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY, API, World
from tests.support.authenticator import Authenticator
from tests.support.factors import (
    ORIGIN,
    STEP_SECONDS,
    challenge_of,
    code_now,
    enrol_codes,
    fields_of,
    options_of,
    register,
    show,
    totp_of,
)
from tests.support.pages import Browser, Rig, pages
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key
from tickwise.api.resources import RESOURCES
from tickwise.control.factors.pace import PERSON
from tickwise.control.people.second_step import WaitingStep
from tickwise.domain.accounts.second_factor import read_second_factor
from tickwise.domain.audit import AuditAction
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import Origin
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.factors import TRIES_MAX
from tickwise.testing.clock import VirtualClock
from tickwise.web.views import PAGES

STEP: Final = "/login/second-step"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def rig(clock: VirtualClock) -> AsyncIterator[Rig]:
    async with pages(clock=clock) as made:
        await made.here.control.bearers.sign_with(signing_key())
        yield made


async def with_codes(here: World, clock: VirtualClock, name: str = "Ada") -> Any:
    """A person with an app, whose code of now was not used."""
    await person(here, name, ("viewer", "default"))
    totp = await totp_of(here, (await signed_in(here, name))["access_token"])
    await clock.advance(STEP_SECONDS)
    return totp


async def with_passkey(rig: Rig, key: Authenticator, name: str = "Ada") -> Browser:
    """The browser of a person with a passkey."""
    await person(rig.here, name, ("viewer", "default"))
    browser = rig.browser(base=ORIGIN)
    await browser.sign_in(name)
    assert 200 == (await register(browser, key)).status_code
    return browser


async def alone(rig: Rig, key: Authenticator, origin: str = ORIGIN, **said: Any) -> int:
    """The answer to a passkey in place of a password."""
    browser = rig.browser(base=ORIGIN)
    begun = (await browser.post("/login/passkey/options")).json()
    form = {"step": begun["step"], "response": key.get(begun["options"], origin, **said)}
    return (await browser.post("/login/passkey", form)).status_code


@probe(10, stopped_by="the step of a code is kept with its factor, and grows where the challenge ends")
async def test_a_code_is_replayed(rig: Rig, clock: VirtualClock) -> None:
    """A code that was seen over somebody's shoulder, within its 90 s: with another challenge, ten times at once, and
    an earlier code after a later one."""
    totp = await with_codes(rig.here, clock)
    code = await code_now(rig.here, totp)
    challenges = [(await challenge_of(rig.here, "Ada"))["challenge"] for _ in range(3)]
    answers = await asyncio.gather(*(show(rig.here, each, code) for each in challenges))
    assert [200, 401, 401] == sorted(each.status_code for each in answers)
    later = (await challenge_of(rig.here, "Ada"))["challenge"]
    for steps in (0, -1):
        assert 401 == (await show(rig.here, later, await code_now(rig.here, totp, steps=steps))).status_code


@probe(10, stopped_by="a challenge belongs to a person, and a code to a factor of that person")
async def test_a_code_of_another_person_is_shown(rig: Rig, clock: VirtualClock) -> None:
    """With a challenge of one's own, and one's own code with the challenge of another; recovery codes too."""
    ada = await with_codes(rig.here, clock, "Ada")
    bob = await with_codes(rig.here, clock, "Bob")
    for name, totp in (("Ada", bob), ("Bob", ada)):
        challenge = (await challenge_of(rig.here, name))["challenge"]
        assert 401 == (await show(rig.here, challenge, await code_now(rig.here, totp))).status_code


@probe(10, stopped_by="a challenge is found by its SHA-256, works once, for one purpose and for minutes")
async def test_a_challenge_is_made_up_or_used_for_another_purpose(rig: Rig, clock: VirtualClock) -> None:
    """One that is made up, one that was used, and those of passkeys and registrations as a second step."""
    totp = await with_codes(rig.here, clock)
    used = (await challenge_of(rig.here, "Ada"))["challenge"]
    assert 200 == (await show(rig.here, used, await code_now(rig.here, totp))).status_code
    await clock.advance(STEP_SECONDS)
    foreign = (await rig.browser(base=ORIGIN).post("/login/passkey/options")).json()["step"]
    for challenge in ("made-up", "", "x" * 1_000, used, foreign):
        answer = await show(rig.here, challenge or "-", await code_now(rig.here, totp))
        assert (401, "second_factor_over") == (answer.status_code, answer.json()["code"])


@probe(10, stopped_by="what proves the password is no token and no cookie: no route takes it")
async def test_the_challenge_is_used_as_a_credential(rig: Rig, clock: VirtualClock) -> None:
    """As a bearer token on every route, as a refresh token, as a key, and as the cookie of every page."""
    await with_codes(rig.here, clock)
    challenge = (await challenge_of(rig.here, "Ada"))["challenge"]
    for endpoint in RESOURCES:
        if not endpoint.is_open:
            path = endpoint.path.replace("{", "").replace("}", "")
            answer = await rig.here.client.request(
                endpoint.method, path, headers={"Authorization": f"Bearer {challenge}"}
            )
            assert answer.status_code in (401, 415), (endpoint.name, answer.status_code)
    for grant, name in (("refresh_token", "refresh_token"), ("api_key", "api_key")):
        body = {"grant_type": grant, name: challenge}
        assert 401 == (await ask(rig.here, None, "POST", "/auth/token", json=body)).status_code
    browser = await with_passkey(rig, Authenticator(), "Eve")
    assert browser.cookie is not None
    browser.cookie = f"{browser.cookie.partition('=')[0]}={challenge}"
    for page in PAGES:
        if not page.is_open and page.method == "GET" and not page.is_stream:
            path = page.path.replace("{", "").replace("}", "")
            assert (await browser.get(path)).status_code in (303, 401), page.name


@probe(10, stopped_by="a session begins after the second step alone; each page looks the session up")
async def test_pages_are_called_after_the_first_step(rig: Rig, clock: VirtualClock) -> None:
    """The right password, then every later page with the cookies that it gave; then those of the enrolment."""
    await with_codes(rig.here, clock)
    browser = rig.browser(base=ORIGIN)
    step = await browser.sign_in("Ada")
    assert (200, None, None) == (step.status_code, step.headers.get("set-cookie"), browser.cookie)
    for page in PAGES:
        if not page.is_open and not page.is_stream:
            path = page.path.replace("{", "").replace("}", "")
            answer = await browser.ask(page.method, path, Sec_Fetch_Site="same-origin")
            assert answer.status_code in (303, 401), page.name
            assert "/login" in answer.headers.get("location", "/login")
    fields = fields_of(step.text, STEP)
    for path in ("begin-codes", "begin-passkey", "confirm", "passkey"):
        answer = await browser.post(
            f"/login/enrol/{path}", {**fields, "code": "000000", "factor_id": "", "response": "{}"}
        )
        assert (True, None) == (answer.status_code in (401, 422), answer.headers.get("set-cookie")), path
    assert [] == [each for each in await rig.here.store.factors.of(await _id(rig, "Ada")) if not each.confirmed]


async def _id(rig: Rig, name: str) -> Any:
    found = await rig.here.store.users.sign_in(name.lower())
    assert found is not None
    return found.row.user_id


@probe(10, stopped_by="the first factor ends, in its transaction, every sign-in that was to enrol one")
async def test_a_password_enrols_a_second_factor_of_its_own(clock: VirtualClock) -> None:
    """A role requires a factor. A thief of the password began to enrol, up to the last request; then the person
    enrolled. And a thief that comes later."""
    async with pages(clock=clock, second_factor=read_second_factor("required")) as rig:
        await person(rig.here, "Ada", ("viewer", "default"))
        thief, victim = rig.browser(base=ORIGIN), rig.browser(base=ORIGIN)
        begun = await thief.sign_in("Ada")
        place = "/login/enrol/begin-passkey"
        page = await thief.post(place, fields_of(begun.text, place))
        key = Authenticator()
        response = key.create(options_of(page.text, "/login/enrol/passkey"), ORIGIN)
        stolen = {**fields_of(page.text, "/login/enrol/passkey"), "response": response}
        start = await victim.sign_in("Ada")
        page = await victim.post(place, fields_of(start.text, place))
        made = Authenticator().create(options_of(page.text, "/login/enrol/passkey"), ORIGIN)
        done = await victim.post(
            "/login/enrol/passkey", {**fields_of(page.text, "/login/enrol/passkey"), "response": made}
        )
        assert 200 == done.status_code
        answer = await thief.post("/login/enrol/passkey", stolen)
        assert (401, None) == (answer.status_code, answer.headers.get("set-cookie"))
        assert 401 == await alone(rig, key)
        assert "second-step" in (await thief.sign_in("Ada")).text
        assert 1 == len(await rig.here.store.factors.of(await _id(rig, "Ada")))


@probe(10, stopped_by="attempts are counted in the store before a code is looked at, and paced by person and network")
async def test_codes_are_guessed(rig: Rig, clock: VirtualClock) -> None:
    """By somebody with the password: one challenge, many at once; then challenge after challenge; then from ever new
    networks. The person goes on where a second factor was shown before, and nothing is locked for ever."""
    totp = await with_codes(rig.here, clock)
    good = (await challenge_of(rig.here, "Ada"))["challenge"]
    assert 200 == (await show(rig.here, good, await code_now(rig.here, totp))).status_code
    sign_ins = rig.here.control.factor_sign_ins
    looked_at = 0
    for number in range(100):
        network = f"198.51.{number}.7"
        step = await rig.here.control.browsers.sign_in("Ada", PASSWORD, _origin(network))
        assert isinstance(step, WaitingStep)
        tries = [sign_ins.by_code(step.secret, f"{n:06}", _origin(network)) for n in range(TRIES_MAX + 3)]
        found = await asyncio.gather(*tries, return_exceptions=True)
        looked_at += sum(type(each).__name__ == "SecondFactorWrong" for each in found)
    assert looked_at <= PERSON.burst + 2 * TRIES_MAX
    await clock.advance(STEP_SECONDS)
    mine = (await challenge_of(rig.here, "Ada"))["challenge"]
    assert 200 == (await show(rig.here, mine, await code_now(rig.here, totp))).status_code
    await clock.advance(PERSON.interval_seconds * 2)
    step = await rig.here.control.browsers.sign_in("Ada", PASSWORD, _origin("203.0.113.9"))
    assert isinstance(step, WaitingStep)
    code = await code_now(rig.here, totp)
    assert (await sign_ins.by_code(step.secret, code, _origin("203.0.113.9"))).cookie
    await rig.here.control.denials.write(last=True)
    query = AuditQuery(namespace=INSTALLATION, action=AuditAction.FACTOR_REFUSED, limit=500)
    assert 0 < len(await rig.here.store.audit.find(query)) < 50


def _origin(address: str) -> Origin:
    return Origin(address, "r")


@probe(10, stopped_by="only the right password gets another answer; the hash is computed for every name")
async def test_a_second_factor_tells_who_is_there(rig: Rig, clock: VirtualClock) -> None:
    """A wrong password of a person with a factor, of one without, and of nobody: one answer, as much work."""
    await with_codes(rig.here, clock)
    await person(rig.here, "Bob", ("viewer", "default"))
    texts = set()
    for name in ("Ada", "Bob", "Nobody"):
        body = {"grant_type": "password", "username": name, "password": OTHER_PASSWORD}
        answer = await ask(rig.here, None, "POST", "/auth/token", json=body)
        texts.add((answer.status_code, answer.json()["code"], answer.json()["detail"]))
    assert 1 == len(texts)


ELSEWHERE: Final = {
    "another origin": ("https://tickwise.example.org", {}),
    "another port": ("http://localhost:9999", {}),
    "another scheme": ("https://localhost:8470", {}),
    "a subdomain": ("http://x.localhost:8470", {}),
    "another RP ID": (ORIGIN, {"rp_id": "example.org"}),
    "a page in a frame": (ORIGIN, {"crossOrigin": True}),
    "another challenge": (ORIGIN, {"challenge": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}),
    "a registration in place of a signature": (ORIGIN, {"type": "webauthn.create"}),
}


@probe(10, stopped_by="origin, RP ID hash, challenge and type are compared with what this server asked for")
@pytest.mark.parametrize("case", ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_a_passkey_was_signed_elsewhere(rig: Rig, case: tuple[str, dict[str, Any]]) -> None:
    """Signatures that a page of another site, a proxy in front of the real one, or another request got signed."""
    key = Authenticator(counter=1)
    browser = await with_passkey(rig, key)
    origin, said = case
    assert 401 == await alone(rig, key, origin, **said)
    step = await browser.sign_in("Ada")
    response = key.get(options_of(step.text, STEP), origin, **said)
    answer = await browser.post(STEP, {**fields_of(step.text, STEP), "response": response})
    assert 401 == answer.status_code
    assert 303 == await alone(rig, key)


@probe(10, stopped_by="a passkey is looked up with each use, and belongs to one person")
async def test_a_passkey_that_was_removed_or_is_of_another_person_signs_in(rig: Rig) -> None:
    """After its removal, after a reset, of a person who is deactivated, and in the second step of another person."""
    key, other = Authenticator(), Authenticator()
    browser = await with_passkey(rig, key)
    await with_passkey(rig, other, "Bob")
    step = await browser.sign_in("Ada")
    fields, options = fields_of(step.text, STEP), options_of(step.text, STEP)
    assert 401 == (await browser.post(STEP, {**fields, "response": other.get(options, ORIGIN)})).status_code
    lying = json.loads(key.get(options, ORIGIN))
    lying["response"]["userHandle"] = json.loads(other.get(options, ORIGIN))["response"]["userHandle"]
    assert 401 == (await browser.post(STEP, {**fields, "response": json.dumps(lying)})).status_code
    assert 303 == await alone(rig, key)
    user = await _id(rig, "Ada")
    assert 200 == (await ask(rig.here, ADMIN_KEY, "DELETE", f"/users/{user}/second-factors")).status_code
    assert 401 == await alone(rig, key)
    bob = await _id(rig, "Bob")
    assert 200 == (await rig.here.client.patch(f"{API}/users/{bob}", json={"active": False})).status_code
    assert 401 == await alone(rig, other)


@probe(10, stopped_by="a counter that does not grow is refused, and the passkey works no more")
async def test_a_passkey_was_copied(rig: Rig) -> None:
    """The copy signs with a counter that the server has seen; the original too, later."""
    key = Authenticator(counter=5)
    await with_passkey(rig, key)
    assert 303 == await alone(rig, key)
    key.counter = 3
    assert 401 == await alone(rig, key)
    key.counter = 50
    assert 401 == await alone(rig, key)
    query = AuditQuery(namespace=INSTALLATION, action=AuditAction.FACTOR_SUSPECTED, limit=10)
    assert 1 == len(await rig.here.store.audit.find(query))


@probe(10, stopped_by="the answer of a browser is parsed within bounds, and each fault of a parser is a refusal")
@pytest.mark.parametrize(
    "response",
    ["", "{}", "[]", "null", "{", "[" * 10_000, '{"rawId": 1}', '{"id":"AA","rawId":"AA","response":{}}', "x" * 100_000,
     '{"id":"AA","rawId":"AA","response":{"clientDataJSON":"e30","attestationObject":"v_8","authenticatorData":"AA",'
     '"signature":""}}'],
    ids=range(10),
)  # fmt: skip
async def test_an_answer_of_a_browser_is_no_answer(rig: Rig, response: str) -> None:
    """Malformed, nested, large and half CBOR and JSON, at a registration, a second step and a sign-in."""
    browser = await with_passkey(rig, Authenticator())
    begun = (await browser.post("/login/passkey/options")).json()
    page = await browser.post("/security/passkeys/begin", {"password": PASSWORD})
    step = await rig.browser(base=ORIGIN).sign_in("Ada")
    for path, fields in (
        ("/login/passkey", {"step": begun["step"]}),
        ("/security/passkeys", fields_of(page.text, "/security/passkeys")),
        (STEP, fields_of(step.text, STEP)),
    ):
        answer = await browser.post(path, {**fields, "response": response})
        assert answer.status_code in (401, 422), (path, answer.status_code)


@probe(10, stopped_by="a passkey opens what the password opened with which it was enrolled")
async def test_a_passkey_lifts_the_bound_of_a_planted_password(rig: Rig) -> None:
    """An administrator of a namespace adds a person with a password, signs in as them, and enrols a passkey. Later the
    person gets a role of the installation, and another password."""
    here = rig.here
    body = {"name": "probe", "namespaces": ["default"], "role": "admin"}
    planter = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    fields = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "default"}]}
    made = await ask(here, planter, "POST", "/users", json=fields)
    assert 201 == made.status_code, made.text
    browser, key = rig.browser(base=ORIGIN), Authenticator()
    assert 303 == (await browser.sign_in("Ada")).status_code
    assert 200 == (await register(browser, key)).status_code
    assert 303 == await alone(rig, key)
    user = made.json()["user_id"]
    roles = [{"role": "admin", "namespace": "*"}]
    assert 200 == (await here.client.patch(f"{API}/users/{user}", json={"roles": roles})).status_code
    assert 401 == await alone(rig, key)
    link = (await here.client.post(f"{API}/users/{user}/reset")).json()["link"]
    await ask(here, None, "POST", "/users/links", json={"secret": link, "password": OTHER_PASSWORD})
    assert 401 == await alone(rig, key)


@probe(10, stopped_by="links of `tickwise open` are made for keys alone, and a link of a password begins no session")
async def test_a_link_goes_around_the_second_factor(rig: Rig, clock: VirtualClock) -> None:
    """A link for the pages is asked for with the token of a person; a reset of the password is used."""
    totp = await with_codes(rig.here, clock)
    shown = await show(rig.here, (await challenge_of(rig.here, "Ada"))["challenge"], await code_now(rig.here, totp))
    token = shown.json()["access_token"]
    assert 403 == (await ask(rig.here, token, "POST", "/auth/links")).status_code
    user = await _id(rig, "Ada")
    link = (await ask(rig.here, ADMIN_KEY, "POST", f"/users/{user}/reset")).json()["link"]
    browser = rig.browser(base=ORIGIN)
    form = {"secret": link, "password": OTHER_PASSWORD, "password_again": OTHER_PASSWORD}
    answer = await browser.post("/choose-password", form)
    assert (303, None) == (answer.status_code, answer.headers.get("set-cookie"))
    step = await browser.sign_in("Ada", OTHER_PASSWORD)
    assert (200, True) == (step.status_code, STEP in step.text)


@probe(
    10,
    stopped_by="each change asks for the password, at the person's pace, and is about own factors",
)
async def test_a_stolen_session_changes_the_factors(rig: Rig, clock: VirtualClock) -> None:
    """A browser that was left open: without the password, with guesses of it, and with ids of another person's
    factors."""
    key = Authenticator()
    browser = await with_passkey(rig, key)
    victim = rig.browser(base=ORIGIN)
    await person(rig.here, "Bob", ("viewer", "default"))
    await victim.sign_in("Bob")
    await enrol_codes(victim, rig.here)
    (theirs,) = await rig.here.store.factors.of(await _id(rig, "Bob"))
    form = {"factor_id": str(theirs.factor_id), "name": "x", "password": PASSWORD}
    for action in ("rename", "remove"):
        assert 404 == (await browser.post("/security/change", {**form, "action": action})).status_code
    (mine,) = await rig.here.store.factors.of(await _id(rig, "Ada"))
    form = {"factor_id": str(mine.factor_id), "name": "x"}
    statuses = []
    for number in range(7):
        answer = await browser.post("/security/change", {**form, "action": "remove", "password": f"guess {number}"})
        statuses.append(answer.status_code)
    assert [422] * 5 + [429] * 2 == statuses
    for path in ("/security/codes/begin", "/security/passkeys/begin", "/security/recovery-codes"):
        assert 200 != (await browser.post(path)).status_code
    assert 1 == len(await rig.here.store.factors.of(await _id(rig, "Ada")))
