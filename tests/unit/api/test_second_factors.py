"""Second factors at the API: enrolled, asked for, used once, removed, reset; and what does not go around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.factors import STEP_SECONDS, challenge_of, code_now, show, totp_of
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.control.factors.steps import STEP_SECONDS as CHALLENGE_SECONDS
from tickwise.domain.accounts.second_factor import FactorPolicy, read_second_factor
from tickwise.domain.audit import AuditAction, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Invalid
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.factors import TRIES_MAX
from tickwise.testing.clock import VirtualClock

FACTORS = "/auth/second-factors"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made


async def ada(here: World, role: str = "viewer") -> str:
    """A person who is signed in; the token."""
    await person(here, "Ada", (role, "default"))
    return str((await signed_in(here, "Ada"))["access_token"])


async def actions(here: World) -> list[str]:
    """The actions of the installation's entries, the oldest first."""
    await here.control.denials.write(last=True)
    rows = await here.store.audit.find(AuditQuery(namespace=INSTALLATION, limit=100))
    return [row.action for row in reversed(rows)]


async def test_a_password_is_not_enough_once_an_app_is_enrolled(here: World, clock: VirtualClock) -> None:
    """The right password gets a challenge, and a code makes tokens of it. Sessions of before end."""
    token = await ada(here)
    totp = await totp_of(here, token)
    await clock.advance(STEP_SECONDS)
    assert 401 == (await ask(here, token, "GET", FACTORS)).status_code
    problem = await challenge_of(here, "Ada")
    assert (["totp", "recovery_code"], 300) == (problem["factors"], problem["expires_in"])
    answer = await show(here, problem["challenge"], await code_now(here, totp))
    assert (200, "Ada") == (answer.status_code, answer.json()["user"]["name"])
    mine = (await ask(here, answer.json()["access_token"], "GET", FACTORS)).json()
    assert ([("phone", "totp")], 10) == (
        [(each["name"], each["kind"]) for each in mine["factors"]],
        mine["recovery_codes_left"],
    )
    found = await actions(here)
    assert [AuditAction.FACTOR_ENROLLED, AuditAction.RECOVERY_CODES_MADE] == [
        each for each in found if each.startswith(("user.factor", "user.recovery"))
    ]


async def test_the_answer_with_a_challenge_is_not_stored_anywhere(here: World) -> None:
    """Neither by caches, nor by the store under the challenge itself."""
    await totp_of(here, await ada(here))
    body = {"grant_type": "password", "username": "Ada", "password": PASSWORD}
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert "no-store" == answer.headers["cache-control"]
    assert answer.json()["challenge"] not in str(vars(here.store.state))


async def test_a_seed_is_not_readable_in_the_store(here: World) -> None:
    """It is sealed, bound to its factor."""
    totp = await totp_of(here, await ada(here))
    assert totp.secret not in str(here.store.state.second_factors)


async def test_a_code_of_one_step_before_or_after_is_taken(here: World, clock: VirtualClock) -> None:
    """Not one of two steps: clocks of phones differ by seconds."""
    totp = await totp_of(here, await ada(here))
    await clock.advance(10 * STEP_SECONDS)
    statuses = []
    for steps in (-2, -1, 1, 2):
        challenge = (await challenge_of(here, "Ada"))["challenge"]
        statuses.append((await show(here, challenge, await code_now(here, totp, steps=steps))).status_code)
    assert [401, 200, 200, 401] == statuses


async def test_a_recovery_code_signs_in_once(here: World) -> None:
    """In any spelling of its letters; and it is on record."""
    token = await ada(here)
    begun = (await ask(here, token, "POST", FACTORS, json={"password": PASSWORD})).json()
    import pyotp

    totp = pyotp.TOTP(begun["seed_secret"])
    path = f"{FACTORS}/{begun['factor_id']}/confirm"
    made = (await ask(here, token, "POST", path, json={"code": await code_now(here, totp)})).json()
    codes = made["recovery_codes"]
    assert 10 == len(set(codes))
    first = codes[0].upper().replace("-", " ").replace("0", "O").replace("1", "L")
    answer = await show(here, (await challenge_of(here, "Ada"))["challenge"], first)
    assert 200 == answer.status_code
    again = await show(here, (await challenge_of(here, "Ada"))["challenge"], codes[0])
    assert (401, "second_factor_wrong") == (again.status_code, again.json()["code"])
    assert AuditAction.RECOVERY_CODE_USED in await actions(here)
    new = await ask(here, answer.json()["access_token"], "POST", "/auth/recovery-codes", json={"password": PASSWORD})
    assert 201 == new.status_code
    stale = await show(here, (await challenge_of(here, "Ada"))["challenge"], codes[1])
    assert 401 == stale.status_code
    fresh = new.json()["recovery_codes"][0]
    assert 200 == (await show(here, (await challenge_of(here, "Ada"))["challenge"], fresh)).status_code
    assert codes[2] not in str(here.store.state.second_factors)


async def test_each_change_asks_for_the_password_again(here: World) -> None:
    """A stolen token changes nothing, and does not guess the password: the pace is the person's."""
    token = await ada(here)
    for body in ({"password": OTHER_PASSWORD}, {"password": "x"}):
        answer = await ask(here, token, "POST", FACTORS, json=body)
        assert (422, "password_wrong", "/password") == (
            answer.status_code,
            answer.json()["code"],
            answer.json()["pointer"],
        )
    for _ in range(3):
        await ask(here, token, "POST", FACTORS, json={"password": "x"})
    assert 429 == (await ask(here, token, "POST", FACTORS, json={"password": PASSWORD})).status_code


async def test_a_factor_is_renamed_and_removed_by_its_person(here: World, clock: VirtualClock) -> None:
    """With the password. Without a factor the password is enough again, and the recovery codes are gone."""
    totp = await totp_of(here, await ada(here))
    await clock.advance(STEP_SECONDS)
    shown = await show(here, (await challenge_of(here, "Ada"))["challenge"], await code_now(here, totp))
    token = shown.json()["access_token"]
    (factor,) = (await ask(here, token, "GET", FACTORS)).json()["factors"]
    path = f"{FACTORS}/{factor['factor_id']}"
    for method, place, body in (("PATCH", path, {"name": "x"}), ("POST", f"{path}/remove", {})):
        answer = await ask(here, token, method, place, json={**body, "password": "wrong"})
        assert 422 == answer.status_code
    named = await ask(here, token, "PATCH", path, json={"password": PASSWORD, "name": "old phone"})
    assert ["old phone"] == [each["name"] for each in named.json()["factors"]]
    removed = await ask(here, token, "POST", f"{path}/remove", json={"password": PASSWORD})
    assert ([], 0) == (removed.json()["factors"], removed.json()["recovery_codes_left"])
    assert "access_token" in await signed_in(here, "Ada")
    assert [AuditAction.FACTOR_RENAMED, AuditAction.FACTOR_REMOVED] == [
        each for each in await actions(here) if each in (AuditAction.FACTOR_RENAMED, AuditAction.FACTOR_REMOVED)
    ]


async def test_an_administrator_resets_the_factors_of_a_person(here: World) -> None:
    """All sessions end. It is on record, and not for administrators of elsewhere."""
    await totp_of(here, await ada(here))
    user = (await ask(here, ADMIN_KEY, "GET", "/users")).json()[0]
    path = f"/users/{user['user_id']}/second-factors"
    assert ["phone"] == [each["name"] for each in (await ask(here, ADMIN_KEY, "GET", path)).json()]
    assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
    body = {"name": "probe", "namespaces": ["team-a"], "role": "admin"}
    stranger = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    assert 404 == (await ask(here, stranger, "DELETE", path)).status_code
    answer = await ask(here, ADMIN_KEY, "DELETE", path)
    assert (200, 1) == (answer.status_code, answer.json()["removed"])
    assert "access_token" in await signed_in(here, "Ada")
    assert AuditAction.FACTORS_RESET in await actions(here)


async def test_nobody_resets_the_factors_of_a_stronger_person(here: World) -> None:
    """An administrator of a namespace, about one of the installation who is a member there."""
    await person(here, "Root", ("admin", "*"), ("viewer", "default"))
    user = (await ask(here, ADMIN_KEY, "GET", "/users")).json()[0]
    body = {"name": "probe", "namespaces": ["default"], "role": "admin"}
    key = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    assert 403 == (await ask(here, key, "DELETE", f"/users/{user['user_id']}/second-factors")).status_code


async def test_keys_and_refresh_tokens_are_not_asked(here: World, clock: VirtualClock) -> None:
    """A key is a secret of its own; a refresh token is of a sign-in that had its second step."""
    totp = await totp_of(here, await ada(here, "admin"))
    await clock.advance(STEP_SECONDS)
    shown = await show(here, (await challenge_of(here, "Ada"))["challenge"], await code_now(here, totp))
    tokens = shown.json()
    body: dict[str, Any] = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    renewed = await ask(here, None, "POST", "/auth/token", json=body)
    assert 200 == renewed.status_code
    made = await ask(here, tokens["access_token"], "POST", "/keys", json={"name": "ci", "permissions": ["jobs:read"]})
    body = {"grant_type": "api_key", "api_key": made.json()["key"]}
    assert 200 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code


async def test_a_key_has_no_second_factors(here: World) -> None:
    """They are people's."""
    assert 403 == (await ask(here, ADMIN_KEY, "GET", FACTORS)).status_code
    assert 403 == (await ask(here, ADMIN_KEY, "POST", FACTORS, json={"password": PASSWORD})).status_code


async def test_a_role_that_requires_a_factor_gets_no_token_without_one(clock: VirtualClock) -> None:
    """The pages lead to enrol one; the API says so. A key is not asked."""
    async with world(clock=clock, second_factor=read_second_factor("required:developer")) as here:
        await here.control.bearers.sign_with(signing_key())
        for name, role, status in (("Vera", "viewer", 200), ("Dev", "developer", 403), ("Root", "admin", 403)):
            await person(here, name, (role, "default"))
            body = {"grant_type": "password", "username": name, "password": PASSWORD}
            answer = await ask(here, None, "POST", "/auth/token", json=body)
            assert status == answer.status_code, name
            if status == 403:
                assert "second_factor_missing" == answer.json()["code"]
                assert "challenge" not in answer.json()
        assert 200 == (await ask(here, ADMIN_KEY, "GET", "/jobs")).status_code


async def test_the_last_factor_of_a_role_that_requires_one_stays(clock: VirtualClock) -> None:
    """Another one first."""
    async with world(clock=clock) as here:
        await here.control.bearers.sign_with(signing_key())
        totp = await totp_of(here, await ada(here))
        here.control.factors._steps.policy = FactorPolicy(of_everybody=True)
        await clock.advance(STEP_SECONDS)
        shown = await show(here, (await challenge_of(here, "Ada"))["challenge"], await code_now(here, totp))
        token = shown.json()["access_token"]
        mine = (await ask(here, token, "GET", FACTORS)).json()
        path = f"{FACTORS}/{mine['factors'][0]['factor_id']}/remove"
        answer = await ask(here, token, "POST", path, json={"password": PASSWORD})
        assert (True, 409, "second_factor_needed") == (mine["required"], answer.status_code, answer.json()["code"])


async def test_off_asks_nobody(clock: VirtualClock) -> None:
    """And nobody enrols."""
    async with world(clock=clock, second_factor=read_second_factor("off")) as here:
        await here.control.bearers.sign_with(signing_key())
        token = await ada(here)
        assert 403 == (await ask(here, token, "POST", FACTORS, json={"password": PASSWORD})).status_code


async def test_a_reset_of_the_password_does_not_go_around_the_second_factor(here: World) -> None:
    """The link gives another password, and the factors stay."""
    await totp_of(here, await ada(here))
    user = (await ask(here, ADMIN_KEY, "GET", "/users")).json()[0]
    link = (await ask(here, ADMIN_KEY, "POST", f"/users/{user['user_id']}/reset")).json()["link"]
    body = {"secret": link, "password": OTHER_PASSWORD}
    assert 200 == (await ask(here, None, "POST", "/users/links", json=body)).status_code
    assert "challenge" in await challenge_of(here, "Ada", OTHER_PASSWORD)


async def test_a_challenge_ends_by_its_time_its_attempts_and_another_password(here: World, clock: VirtualClock) -> None:
    """Then the password is asked for again."""
    totp = await totp_of(here, await ada(here))
    await clock.advance(STEP_SECONDS)
    late = (await challenge_of(here, "Ada"))["challenge"]
    await clock.advance(CHALLENGE_SECONDS + 1.0)
    answer = await show(here, late, await code_now(here, totp))
    assert (401, "second_factor_over") == (answer.status_code, answer.json()["code"])
    tried = (await challenge_of(here, "Ada"))["challenge"]
    for number in range(TRIES_MAX):
        await clock.advance(20.0)
        assert "second_factor_wrong" == (await show(here, tried, f"00000{number}")).json()["code"]
    await clock.advance(60.0)
    assert "second_factor_over" == (await show(here, tried, await code_now(here, totp))).json()["code"]
    user = (await ask(here, ADMIN_KEY, "GET", "/users")).json()[0]
    before = (await challenge_of(here, "Ada"))["challenge"]
    link = (await ask(here, ADMIN_KEY, "POST", f"/users/{user['user_id']}/reset")).json()["link"]
    await ask(here, None, "POST", "/users/links", json={"secret": link, "password": OTHER_PASSWORD})
    assert "second_factor_over" == (await show(here, before, await code_now(here, totp))).json()["code"]


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("off", FactorPolicy(offered=False)),
        ("offered", FactorPolicy()),
        ("required", FactorPolicy(of_everybody=True)),
        ("required:admin,auditor", FactorPolicy(roles=frozenset({"admin", "auditor"}))),
        ("required:operator", FactorPolicy(roles=frozenset({"operator", "developer", "admin"}))),
    ],
)
def test_the_setting_says_who_needs_one(text: str, policy: FactorPolicy) -> None:
    """A built-in role stands for the wider ones, too."""
    assert policy == read_second_factor(text)


@pytest.mark.parametrize("text", ["", "on", "required:", "required:admin,", "offered:admin", "required:Admin", "off:"])
def test_a_setting_that_cannot_be_meant_is_refused(text: str) -> None:
    """It would protect nobody."""
    with pytest.raises(Invalid):
        read_second_factor(text)


async def test_a_seed_follows_the_key_of_the_installation(clock: VirtualClock) -> None:
    """After the key was rotated, a seed is sealed anew when its code is used; then the key of before is not needed.
    Where the key is lost, codes work no more, and recovery codes do."""
    old, new = LocalKey(bytes(32)), LocalKey(bytes(range(32)))
    async with world(clock=clock, sealer=EnvelopeSealing([old], clock)) as here:
        await here.control.bearers.sign_with(signing_key())
        token = await ada(here)
        totp = await totp_of(here, token)
        (user_id,) = here.store.state.people
        codes = await here.control.factors._enrolments.new_recovery(
            here.store.state.people[user_id].row, Source(CallerKind.PERSON, user_id, "Ada")
        )
        for keys, status in (([new, old], 200), ([new], 200), ([old], 401)):
            here.control.context.sealer = EnvelopeSealing(keys, clock)
            await clock.advance(STEP_SECONDS)
            challenge = (await challenge_of(here, "Ada"))["challenge"]
            assert status == (await show(here, challenge, await code_now(here, totp))).status_code
        assert 200 == (await show(here, (await challenge_of(here, "Ada"))["challenge"], codes[0])).status_code
