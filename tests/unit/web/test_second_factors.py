"""The pages of second factors: the second step, passkeys, an enrolment that a role requires, and the page Security."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.authenticator import Authenticator
from tests.support.factors import (
    ORIGIN,
    STEP_SECONDS,
    code_now,
    enrol_codes,
    fields_of,
    options_of,
    recovery_of,
    register,
    seed_of,
)
from tests.support.pages import Markup, Rig, pages
from tests.support.people import PASSWORD, person, signing_key
from tickwise.domain.accounts.second_factor import read_second_factor
from tickwise.testing.clock import VirtualClock
from tickwise.web.headers import POLICY
from tickwise.web.sessions import KNOWN_SECONDS

STEP = "/login/second-step"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def rig(clock: VirtualClock) -> AsyncIterator[Rig]:
    async with pages(clock=clock) as made:
        yield made


async def test_an_app_is_enrolled_and_asked_for(rig: Rig, clock: VirtualClock) -> None:
    """With a picture within the page's policy; ten recovery codes once; sessions of before end, and the visitor's goes
    on under another cookie."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser, other = rig.browser(base=ORIGIN), rig.browser(base=ORIGIN)
    for each in (browser, other):
        assert 303 == (await each.sign_in("Ada")).status_code
    before = browser.cookie
    page = await browser.post("/security/codes/begin", {"password": PASSWORD, "name": "phone"})
    assert page.headers["content-security-policy"] == POLICY
    picture = page.text.partition("<ol>")[2].partition("<svg")[2].partition("</svg>")[0]
    assert 'class="qr"' in picture
    assert "style=" not in picture
    fields = fields_of(page.text, "/security/codes")
    import pyotp

    totp = pyotp.TOTP(seed_of(page.text))
    wrong = await browser.post("/security/codes", {**fields, "code": "000000"})
    assert (422, False) == (wrong.status_code, totp.secret in wrong.text)
    done = await browser.post("/security/codes", {**fields, "code": await code_now(rig.here, totp)})
    assert (200, 10) == (done.status_code, len(recovery_of(done.text)))
    assert before != browser.cookie
    await clock.advance(STEP_SECONDS)
    assert 200 == (await browser.get("/security")).status_code
    assert 303 == (await other.get("/jobs")).status_code
    assert 0 == len(recovery_of((await browser.get("/security")).text))
    step = await other.sign_in("Ada", next="/jobs")
    assert (200, None) == (step.status_code, step.headers.get("set-cookie"))
    assert 303 == (await other.get("/jobs")).status_code
    fields = fields_of(step.text, STEP)
    again = await other.post(STEP, {**fields, "code": "000000"})
    assert 401 == again.status_code
    fields = fields_of(again.text, STEP)
    into = await other.post(STEP, {**fields, "code": await code_now(rig.here, totp)})
    assert (303, "/jobs") == (into.status_code, into.headers["location"])
    assert 200 == (await other.get("/jobs")).status_code


async def test_what_was_typed_before_comes_through_the_second_step(rig: Rig, clock: VirtualClock) -> None:
    """As through the first."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser(base=ORIGIN)
    await browser.sign_in("Ada")
    totp, _ = await enrol_codes(browser, rig.here)
    await clock.advance(STEP_SECONDS)
    step = await browser.sign_in("Ada", next="/jobs", **{"typed.reason": "the disk"})
    fields = fields_of(step.text, STEP)
    assert "the disk" == fields["typed.reason"]
    page = await browser.post(STEP, {**fields, "code": await code_now(rig.here, totp)})
    assert {"reason": "the disk"} == {each["name"]: each["value"] for each in Markup(page.text).named("input")}


async def test_a_passkey_is_a_second_factor_and_signs_in_by_itself(rig: Rig) -> None:
    """Registered, shown after the password, and shown alone."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser, key = rig.browser(base=ORIGIN), Authenticator(counter=1)
    await browser.sign_in("Ada")
    done = await register(browser, key)
    assert (200, 10) == (done.status_code, len(recovery_of(done.text))), done.text
    step = await browser.sign_in("Ada")
    response = key.get(options_of(step.text, STEP), ORIGIN)
    answer = await browser.post(STEP, {**fields_of(step.text, STEP), "response": response})
    assert 303 == answer.status_code, answer.text
    alone = rig.browser(base=ORIGIN)
    begun = (await alone.post("/login/passkey/options")).json()
    assert ("required", "localhost") == (begun["options"]["userVerification"], begun["options"]["rpId"])
    assert not begun["options"].get("allowCredentials")
    form = {"step": begun["step"], "response": key.get(begun["options"], ORIGIN), "next": "/jobs"}
    answer = await alone.post("/login/passkey", form)
    assert (303, "/jobs") == (answer.status_code, answer.headers["location"])
    words = Markup((await alone.get("/security")).text).words
    assert "key passkey for localhost" in words
    assert "used" in words


async def test_a_passkey_without_verification_is_a_second_factor_alone(rig: Rig) -> None:
    """A touch is one factor, and does not sign in by itself."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser, key = rig.browser(base=ORIGIN), Authenticator(verifies=False)
    await browser.sign_in("Ada")
    assert 200 == (await register(browser, key)).status_code
    begun = (await browser.post("/login/passkey/options")).json()
    form = {"step": begun["step"], "response": key.get(begun["options"], ORIGIN)}
    assert 401 == (await rig.browser(base=ORIGIN).post("/login/passkey", form)).status_code
    step = await browser.sign_in("Ada")
    response = key.get(options_of(step.text, STEP), ORIGIN)
    assert 303 == (await browser.post(STEP, {**fields_of(step.text, STEP), "response": response})).status_code


async def test_the_button_is_shown_where_passkeys_work(rig: Rig) -> None:
    """By the name of a host, with https or on the machine itself. An address of numbers has none."""
    for base, shown in ((ORIGIN, True), ("http://127.0.0.1:8470", False), ("https://tickwise.example.com", True)):
        page = Markup((await rig.browser(base=base).get("/login")).text)
        assert shown == ("/login/passkey" in {each.get("action") for each in page.named("form")}), base
    assert 422 == (await rig.browser().post("/login/passkey/options")).status_code


@pytest.mark.parametrize("kind", ["codes", "passkey"])
async def test_a_role_that_requires_a_factor_leads_to_enrol_one(clock: VirtualClock, kind: str) -> None:
    """And nothing else is there before: no session, no token. Then the person is in."""
    async with pages(clock=clock, second_factor=read_second_factor("required:admin")) as rig:
        await rig.here.control.bearers.sign_with(signing_key())
        await person(rig.here, "Root", ("admin", "*"))
        browser = rig.browser(base=ORIGIN)
        page = await browser.sign_in("Root", next="/jobs")
        assert (200, None) == (page.status_code, page.headers.get("set-cookie"))
        for path in ("/", "/jobs", "/security", "/users"):
            assert 303 == (await browser.get(path)).status_code
        begin = await browser.post(f"/login/enrol/begin-{kind}", fields_of(page.text, f"/login/enrol/begin-{kind}"))
        assert (200, None) == (begin.status_code, begin.headers.get("set-cookie"))
        if kind == "codes":
            import pyotp

            totp = pyotp.TOTP(seed_of(begin.text))
            fields = fields_of(begin.text, "/login/enrol/confirm")
            wrong = await browser.post("/login/enrol/confirm", {**fields, "code": "000000"})
            assert (422, None) == (wrong.status_code, wrong.headers.get("set-cookie"))
            fields = fields_of(wrong.text, "/login/enrol/confirm")
            done = await browser.post("/login/enrol/confirm", {**fields, "code": await code_now(rig.here, totp)})
        else:
            fields = fields_of(begin.text, "/login/enrol/passkey")
            response = Authenticator().create(options_of(begin.text, "/login/enrol/passkey"), ORIGIN)
            done = await browser.post("/login/enrol/passkey", {**fields, "response": response, "name": "laptop"})
        assert (200, 10) == (done.status_code, len(recovery_of(done.text))), done.text
        assert 200 == (await browser.get("/users")).status_code
        other = rig.browser(base=ORIGIN)
        assert "second-step" in (await other.sign_in("Root")).text


async def test_a_recovery_code_is_shown_once_and_takes_the_second_step(rig: Rig) -> None:
    """New ones take the place of those of before."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser(base=ORIGIN)
    await browser.sign_in("Ada")
    _, codes = await enrol_codes(browser, rig.here)
    made = await browser.post("/security/recovery-codes", {"password": PASSWORD})
    new = recovery_of(made.text)
    assert (10, True) == (len(new), set(new).isdisjoint(codes))
    for code, status in ((codes[0], 401), (new[0], 303), (new[0], 401)):
        step = await browser.sign_in("Ada")
        assert status == (await browser.post(STEP, {**fields_of(step.text, STEP), "code": code})).status_code
    assert 422 == (await browser.post("/security/recovery-codes", {"password": "wrong"})).status_code


async def test_a_reset_is_told_to_the_person_once(rig: Rig) -> None:
    """At the next sign-in, with the one who did it. An administrator has to tick a box."""
    await person(rig.here, "Root", ("admin", "*"))
    ada = await person(rig.here, "Ada", ("viewer", "default"))
    browser, root = rig.browser(base=ORIGIN), rig.browser(base=ORIGIN)
    await browser.sign_in("Ada")
    await root.sign_in("Root")
    await enrol_codes(browser, rig.here)
    place = f"/users/{ada['user_id']}"
    assert "phone (codes" in Markup((await root.get(place)).text).words
    assert 422 == (await root.post(f"{place}/reset-factors")).status_code
    assert 303 == (await root.post(f"{place}/reset-factors", {"confirm": "yes"})).status_code
    again = rig.browser(base=ORIGIN)
    page = await again.sign_in("Ada")
    assert (200, True) == (page.status_code, "Root has removed your second factors" in Markup(page.text).words)
    assert 303 == (await rig.browser(base=ORIGIN).sign_in("Ada")).status_code


async def test_a_factor_is_renamed_and_removed_on_the_page(rig: Rig, clock: VirtualClock) -> None:
    """With the password."""
    await person(rig.here, "Ada", ("viewer", "default"))
    browser = rig.browser(base=ORIGIN)
    await browser.sign_in("Ada")
    await register(browser, Authenticator(), "blue")
    await clock.advance(KNOWN_SECONDS)
    page = await browser.get("/security")
    (factor,) = {each["value"] for each in Markup(page.text).named("input") if each.get("name") == "factor_id"}
    form = {"factor_id": factor, "name": "green", "password": PASSWORD}
    refused = await browser.post("/security/change", {**form, "password": "wrong", "action": "remove"})
    assert 422 == refused.status_code
    assert 303 == (await browser.post("/security/change", {**form, "action": "rename"})).status_code
    assert "green" in Markup((await browser.get("/security")).text).words
    assert 303 == (await browser.post("/security/change", {**form, "action": "remove"})).status_code
    assert "Your password alone signs you in" in Markup((await browser.get("/security")).text).words


async def test_the_page_is_for_people(rig: Rig) -> None:
    """A session of a key has no second factors, and no link to the page."""
    made = await rig.here.client.post("/api/v1/auth/links")
    browser = rig.browser()
    assert 303 == (await browser.get(made.json()["link"])).status_code
    assert 403 == (await browser.get("/security")).status_code
    assert "/security" not in (await browser.get("/")).text
