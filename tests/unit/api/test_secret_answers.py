"""An answer that has a secret is never kept for a repeat under an Idempotency-Key: every route, by its declaration."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final, get_args, get_type_hints

import msgspec
import pyotp
import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.factors import challenge_of, show
from tests.support.people import PASSWORD, person, signed_in, signing_key
from tickwise.api.endpoint import Endpoint, tells_secret
from tickwise.api.resources import RESOURCES

SECRET_NAME: Final = re.compile(r"(^|_)(token|secret|password|link|key|device_code)$")
NO_SECRETS: Final = {"key", "limit_key", "has_password", "needs_link", "identity_token"}
"""The name of a job that its client chose, the name of a limit, whether there is a password, and the wish of a job for
a token."""


def _fields(kind: Any, seen: set[Any]) -> Iterator[tuple[str, str, Any]]:
    """(struct, field, type) of an answer, at any depth."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in seen:
            return
        seen.add(kind)
        for name, each in get_type_hints(kind, include_extras=True).items():
            yield kind.__name__, name, each
            yield from _fields(each, seen)
    for each in get_args(kind):
        yield from _fields(each, seen)


OF_FACTORS: Final = {"beginSecondFactor", "confirmSecondFactor", "createRecoveryCodes"}
"""They are for people: `test_no_answer_about_a_second_factor_is_kept`."""


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        await made.control.bearers.sign_with(signing_key())
        yield made


def _told(endpoint: Endpoint) -> tuple[Any, ...]:
    return (*endpoint.answers, *endpoint.pending, *(kind for kinds in endpoint.also.values() for kind in kinds))


def test_a_field_that_is_named_like_a_secret_is_declared_as_one() -> None:
    """A new answer with a token in it cannot be forgotten. The keys of jobs are names that their clients chose."""
    named = {
        (struct, field): tells_secret(kind)
        for endpoint in RESOURCES
        for answer in _told(endpoint)
        for struct, field, kind in _fields(answer, set())
        if SECRET_NAME.search(field)
    }
    assert {name for name, secret in named.items() if secret} == {
        ("AddedUserView", "link"),
        ("CodesEnrolmentView", "otpauth_link"),
        ("CodesEnrolmentView", "seed_secret"),
        ("LinkView", "link"),
        ("MadeChannelView", "secret"),
        ("MadeKeyView", "key"),
        ("SessionLinkView", "link"),
        ("DeviceView", "device_code"),
        ("TokenView", "access_token"),
        ("TokenView", "refresh_token"),
    }
    assert {field for (_, field), secret in named.items() if not secret} == NO_SECRETS


def test_a_route_that_tells_a_secret_says_so() -> None:
    """It cannot be declared otherwise."""
    telling = [each for each in RESOURCES if any(tells_secret(kind) for kind in _told(each))]
    telling_names = {"createKey", "rotateKey", "createUser", "resetPassword", "createToken", "createSessionLink"}
    telling_names |= {"createChannel", "rotateChannelSecret", "startDeviceSignIn", *OF_FACTORS}
    assert telling_names == {each.name for each in telling}
    for endpoint in telling:
        with pytest.raises(TypeError, match="secret=True"):
            replace(endpoint, secret=False)


async def test_no_answer_with_a_secret_is_kept(here: World) -> None:
    """Each such route, twice under one Idempotency-Key: two answers, and nothing of either in the store."""
    key = (await here.client.post(f"{API}/keys", json={"name": "ci", "permissions": ["jobs:read"]})).json()
    user = (await here.client.post(f"{API}/users", json={"name": "Ada", "password": PASSWORD})).json()
    hook = {"kind": "webhook", "url": "https://hooks.example.com/tickwise"}
    channel = (await here.client.post(f"{API}/channels", json={"name": "ops", **hook})).json()
    bodies: dict[str, Any] = {
        "createChannel": {"name": "other", **hook},
        "rotateChannelSecret": None,
        "createKey": {"name": "other", "permissions": ["jobs:read"]},
        "rotateKey": {"overlap_seconds": 0},
        "createUser": {"name": "Bob"},
        "resetPassword": None,
        "createSessionLink": None,
        "startDeviceSignIn": {"client": "a terminal"},
        "createToken": {"grant_type": "password", "username": "Ada", "password": PASSWORD},
    }
    told: set[str] = set()
    for endpoint in RESOURCES:
        if endpoint.name in OF_FACTORS or not any(tells_secret(kind) for kind in _told(endpoint)):
            continue
        path = endpoint.path.replace("{key_id}", key["key_id"]).replace("{user_id}", user["user_id"])
        path = path.replace("{channel_id}", channel["channel_id"])
        for _ in range(2):
            answer = await here.client.request(
                endpoint.method,
                path,
                headers={"Authorization": f"Bearer {ADMIN_KEY}", "Idempotency-Key": "once"},
                json=bodies[endpoint.name],
            )
            if endpoint.name in {"createUser", "createChannel"} and answer.status_code == 409:
                continue
            assert answer.status_code in (200, 201), (endpoint.name, answer.text)
            assert "idempotency-replayed" not in answer.headers
            secrets = {value for name, value in answer.json().items() if SECRET_NAME.search(name) and value}
            assert secrets, endpoint.name
            assert secrets.isdisjoint(told), endpoint.name
            told |= secrets
    # The signing secret of a channel is kept for its senders, in a place of its own.
    kept = str({name: part for name, part in vars(here.store.state).items() if name != "channel_secrets"})
    assert not [secret for secret in told if secret in kept]


async def test_no_answer_about_a_second_factor_is_kept(here: World) -> None:
    """Of a person, twice under one Idempotency-Key: two seeds, two sets of recovery codes, and nothing in the store."""
    await person(here, "Ada", ("viewer", "default"))
    headers = {"Idempotency-Key": "once"}

    async def twice(token: str, path: str, body: Any, field: str) -> list[Any]:
        sent = {**headers, "Authorization": f"Bearer {token}"}
        answers = [await here.client.post(f"{API}/auth/{path}", headers=sent, json=body) for _ in range(2)]
        assert all("idempotency-replayed" not in each.headers for each in answers)
        return [each.json().get(field) for each in answers]

    token = (await signed_in(here, "Ada"))["access_token"]
    seeds = await twice(token, "second-factors", {"password": PASSWORD}, "seed_secret")
    assert seeds[0] != seeds[1]
    identifier = (await here.store.factors.of(next(iter(here.store.state.people))))[0].factor_id
    code = pyotp.TOTP(seeds[1]).at(await here.store.now())
    confirmed = await twice(token, f"second-factors/{identifier}/confirm", {"code": code}, "recovery_codes")
    assert (10, None) == (len(confirmed[0]), confirmed[1])
    challenge = (await challenge_of(here, "Ada"))["challenge"]
    token = (await show(here, challenge, confirmed[0][0])).json()["access_token"]
    made = await twice(token, "recovery-codes", {"password": PASSWORD}, "recovery_codes")
    assert set(made[0]).isdisjoint(made[1])
    kept = str({**vars(here.store.state), "second_factors": here.store.state.second_factors})
    assert not [each for each in (*seeds, *confirmed[0], *made[0], *made[1]) if each in kept]
