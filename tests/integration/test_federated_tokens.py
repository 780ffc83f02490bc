"""Programs without a key: tokens of an issuer, a real server, are exchanged, and bounded by their federation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.issuers import LocalIssuer, exchanged, federation, local_issuer
from tests.support.people import ask, signing_key
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.oidc.federated import FederatedTokens
from tickwise.domain.errors import Unauthenticated
from tickwise.testing.clock import ShiftedClock

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with local_issuer() as made:
        yield made


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    verifier = FederatedTokens(SystemClock(), allow=["127.0.0.1"])
    async with world(verifier=verifier) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made
    await verifier.close()


async def test_a_pipeline_gets_what_its_federation_says(here: World, issuer: LocalIssuer) -> None:
    """For a few minutes, under its own subject, without a refresh token."""
    await federation(here, issuer, lifetime_seconds=120)
    answer = await exchanged(here, issuer.token())
    assert 200 == answer.status_code, answer.text
    tokens = answer.json()
    assert (120, None) == (tokens["expires_in"], tokens.get("refresh_token"))
    me = (await ask(here, tokens["access_token"], "GET", "/auth/me")).json()
    assert ("pipeline (repo:acme/app:ref:refs/heads/main)", ["jobs:create", "jobs:read"]) == (
        me["name"], me["permissions"],
    )  # fmt: skip
    job = {"name": "built", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "true"}}
    made = await ask(here, tokens["access_token"], "POST", "/jobs", json=job)
    assert 201 == made.status_code, made.text
    assert 403 == (await ask(here, tokens["access_token"], "GET", "/keys")).status_code


async def test_a_federation_may_take_a_token_many_times(here: World, issuer: LocalIssuer) -> None:
    """As clusters hand them out; and one without an id is never remembered."""
    await federation(here, issuer, single_use=False)
    token = issuer.token()
    assert [200, 200] == [(await exchanged(here, token)).status_code for _ in range(2)]


async def test_a_token_exchange_answers_as_its_standard_says(here: World, issuer: LocalIssuer) -> None:
    """RFC 8693: the kind of the token that is given."""
    await federation(here, issuer)
    body = {
        "grant_type": EXCHANGE, "subject_token": issuer.token(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }  # fmt: skip
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert (200, "urn:ietf:params:oauth:token-type:access_token") == (
        answer.status_code, answer.json()["issued_token_type"],
    )  # fmt: skip


async def test_keys_that_a_federation_brings_need_no_request(issuer: LocalIssuer) -> None:
    """For a cluster that cannot be reached."""
    verifier = FederatedTokens(SystemClock())
    async with world(verifier=verifier) as here:
        await here.control.bearers.sign_with(signing_key())
        await federation(here, issuer, key_set=issuer.key_set())
        assert 200 == (await exchanged(here, issuer.token())).status_code
    await verifier.close()
    assert [] == issuer.asked


async def test_an_issuer_rotates_its_keys(issuer: LocalIssuer) -> None:
    """A new key is found within seconds, and the removed one counts no more then. A flood of made-up names of keys
    causes no flood of requests."""
    clock = ShiftedClock()
    verifier = FederatedTokens(clock, allow=["127.0.0.1"])
    async with world(verifier=verifier) as here:
        await here.control.bearers.sign_with(signing_key())
        await federation(here, issuer)
        assert 200 == (await exchanged(here, issuer.token())).status_code
        old = issuer.token()
        issuer.rotate("second")
        clock.shift(11.0)
        assert 200 == (await exchanged(here, issuer.token())).status_code
        assert 401 == (await exchanged(here, old)).status_code
        asked = len(issuer.asked)
        for number in range(5):
            assert 401 == (await exchanged(here, issuer.token({"kid": f"made-up-{number}"}))).status_code
        assert len(issuer.asked) <= asked + 1
    await verifier.close()


async def test_an_issuer_that_is_away_is_waited_for(here: World, issuer: LocalIssuer) -> None:
    """503: the same token works once it is back. It is not used up."""
    await federation(here, issuer)
    issuer.is_away = True
    token = issuer.token()
    assert 503 == (await exchanged(here, token)).status_code


async def test_an_issuer_that_names_itself_otherwise_is_not_believed(here: World, issuer: LocalIssuer) -> None:
    """Its discovery is of another issuer."""
    await federation(here, issuer)
    issuer.says_issuer = "https://other.example.com"
    assert 503 == (await exchanged(here, issuer.token())).status_code


async def test_the_oldest_federation_that_fits_counts(here: World, issuer: LocalIssuer) -> None:
    """One that is added later changes nothing for programs of before, unless they name it."""
    first = await federation(here, issuer, name="first", permissions=["jobs:read"])
    second = await federation(here, issuer, name="second", permissions=["runs:read"])
    for named, expected in ((None, "first"), ("second", "second"), (second["federation_id"], "second")):
        fields = {} if named is None else {"federation": named}
        token = (await exchanged(here, issuer.token(), **fields)).json()["access_token"]
        me = (await ask(here, token, "GET", "/auth/me")).json()
        assert expected == me["name"].partition(" ")[0]
    assert 401 == (await exchanged(here, issuer.token(), federation="third")).status_code
    assert first["federation_id"] != second["federation_id"]


async def test_a_removed_federation_ends_its_tokens(here: World, issuer: LocalIssuer) -> None:
    """Those that were given work no more, and no other is given."""
    made = await federation(here, issuer)
    token = (await exchanged(here, issuer.token())).json()["access_token"]
    await here.control.bearers.find(token)
    gone = await ask(here, ADMIN_KEY, "DELETE", f"/federations/{made['federation_id']}")
    assert 200 == gone.status_code, gone.text
    assert 401 == (await exchanged(here, issuer.token())).status_code
    assert str(here.bell.about[-1]) == made["federation_id"]
    with pytest.raises(Unauthenticated):
        await here.control.bearers.find(token)
    listed = (await ask(here, ADMIN_KEY, "GET", "/federations")).json()
    assert [] == listed


async def test_an_exchange_is_on_record_with_its_subject(here: World, issuer: LocalIssuer) -> None:
    """Which federation, which subject, which token."""
    await federation(here, issuer)
    await exchanged(here, issuer.token(jti="the-one"))
    found = (await ask(here, ADMIN_KEY, "GET", "/audit?action=auth.token_made")).json()
    text = json.dumps(found)
    assert "pipeline (repo:acme/app:ref:refs/heads/main)" in text
    assert "the-one" in text
