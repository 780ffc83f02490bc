"""A job with an identity token: what it may ask for, what is stored of it, and what keeps it from having one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.app import API, World, world
from tickwise.adapters.identity.issuer import IssuerSettings, JwtIssuer
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.documents.definition import decode_definition

SHELL = {"kind": "shell", "command": "true"}
ISSUER = "https://tickwise.example.com"


@asynccontextmanager
async def house(**settings: Any) -> AsyncIterator[World]:
    """An API with an issuer."""
    keys = settings.pop("keys", [LocalKey(bytes(32))])

    def issuer(store: Any, clock: Any) -> JwtIssuer:
        given = IssuerSettings(**{"issuer": ISSUER, **settings})
        return JwtIssuer(given, store=store.identity_keys, sealer=EnvelopeSealing(keys, clock), clock=clock)

    async with world(issuer=issuer) as made:
        yield made


async def create(made: World, **body: Any) -> Any:
    return await made.client.post(
        f"{API}/jobs", json={"name": "a", "schedule_type": "ON_DEMAND", "task": SHELL, **body}
    )


async def stored(made: World, job_id: str) -> Any:
    from uuid import UUID

    row = await made.store.jobs.get("default", UUID(job_id))
    assert row is not None
    return decode_definition(row.definition)


async def test_a_job_has_the_token_that_it_asks_for() -> None:
    """The answer has its defaults, the definition the key of the job, and a key to sign with is there."""
    async with house() as made:
        answer = await create(made, key="nightly", identity_token={"audience": "vault"})
        assert 201 == answer.status_code, answer.text
        shown = (await made.client.get(f"{API}/jobs/{answer.json()['job_id']}")).json()
        assert {"audience": ["vault"], "algorithm": "RS256", "subject": "run"} == shown["identity_token"]
        definition = await stored(made, shown["job_id"])
        assert "nightly" == definition.job_key
        assert ["RS256"] == [each.algorithm for each in await made.store.identity_keys.find()]


async def test_a_change_of_the_key_changes_the_subject_and_null_takes_the_token_away() -> None:
    async with house() as made:
        job_id = (await create(made, key="a", identity_token={"audience": "vault", "algorithm": "EdDSA"})).json()[
            "job_id"
        ]
        assert 200 == (await made.client.patch(f"{API}/jobs/{job_id}", json={"key": "b"})).status_code
        assert "b" == (await stored(made, job_id)).job_key
        assert 200 == (await made.client.patch(f"{API}/jobs/{job_id}", json={"key": None})).status_code
        definition = await stored(made, job_id)
        assert definition.job_key is None
        assert "EdDSA" == definition.identity_token.algorithm
        answer = await made.client.patch(f"{API}/jobs/{job_id}", json={"identity_token": None})
        assert answer.json()["identity_token"] is None
        assert (await stored(made, job_id)).identity_token is None


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({"identity_token": {"audience": ""}}, "/identity_token/audience", "audience"),
        ({"identity_token": {"audience": []}}, "/identity_token/audience", "1 to 10"),
        ({"identity_token": {"audience": "a", "algorithm": "HS256"}}, "/identity_token/algorithm", "HS256"),
        ({"identity_token": {"audience": "a", "algorithm": "none"}}, "/identity_token/algorithm", "none"),
        ({"identity_token": {"audience": "a", "more": 1}}, "/identity_token", "more"),
        (
            {"identity_token": {"audience": "a"}, "task": {"kind": "function", "name": "f"}},
            "/identity_token",
            "function",
        ),
        (
            {"identity_token": {"audience": "a"}, "key": "0192f0c1-0000-7000-8000-000000000000"},
            "/key",
            "form of a job's id",
        ),
    ],
)
async def test_what_cannot_be_is_refused_with_its_place(body: dict[str, Any], pointer: str, words: str) -> None:
    async with house() as made:
        answer = await create(made, **body)
        assert 422 == answer.status_code, answer.text
        problem = answer.json()
        assert problem["pointer"].startswith(pointer), problem
        assert words in problem["detail"]


async def test_an_edit_of_a_key_to_the_id_of_another_job_is_refused() -> None:
    """Its tokens would have the subject of that job."""
    async with house() as made:
        other = (await create(made, identity_token={"audience": "vault"})).json()["job_id"]
        job_id = (await create(made, key="a", identity_token={"audience": "vault"})).json()["job_id"]
        answer = await made.client.patch(f"{API}/jobs/{job_id}", json={"key": other})
        assert 422 == answer.status_code, answer.text


async def test_without_an_address_or_outside_of_the_named_namespaces_a_job_is_refused() -> None:
    """At its creation, with the setting that is missing."""
    for settings, words in (
        ({"issuer": None}, "TICKWISE_IDENTITY_ISSUER"),
        ({"namespaces": ("billing",)}, "TICKWISE_IDENTITY_NAMESPACES"),
    ):
        async with house(**settings) as made:
            answer = await create(made, identity_token={"audience": "vault"})
            assert 422 == answer.status_code, answer.text
            assert words in answer.text
            assert [] == [*await made.store.identity_keys.find()]


async def test_without_the_key_of_the_installation_a_job_waits_for_an_operator() -> None:
    """Nothing is wrong with the body."""
    async with house(keys=[]) as made:
        answer = await create(made, identity_token={"audience": "vault"})
        assert (409, "sealing_key_unset") == (answer.status_code, answer.json()["code"])


async def test_the_documents_are_there_for_anybody_and_keys_for_administrators() -> None:
    """The discovery document names the address of the set; nothing of it is private."""
    async with house() as made:
        await create(made, identity_token={"audience": "vault"})
        found = await made.client.get("/.well-known/openid-configuration", headers={"Authorization": ""})
        assert 200 == found.status_code, found.text
        assert "public, max-age=300" == found.headers["cache-control"]
        document = found.json()
        assert ISSUER == document["issuer"]
        assert document["jwks_uri"].startswith(f"{ISSUER}/")
        assert ["id_token"] == document["response_types_supported"]
        assert ["public"] == document["subject_types_supported"]
        assert "RS256" in document["id_token_signing_alg_values_supported"]
        assert {"iss", "sub", "aud", "exp", "iat"} <= set(document["claims_supported"])
        keys = await made.client.get(document["jwks_uri"].removeprefix(ISSUER), headers={"Authorization": ""})
        (key,) = keys.json()["keys"]
        assert {"kty", "n", "e", "alg", "use", "kid"} == set(key)
        rotated = await made.client.post(f"{API}/auth/identity-keys:rotate", json={"algorithm": "RS256"})
        assert 201 == rotated.status_code, rotated.text
        listed = (await made.client.get(f"{API}/auth/identity-keys")).json()
        assert [key["kid"], rotated.json()["kid"]] == [each["kid"] for each in listed]
        await made.key("a-developer-key-of-32-characters-or-more", "jobs:write", "namespaces:admin")
        bearer = {"Authorization": "Bearer a-developer-key-of-32-characters-or-more"}
        for method, path in (("GET", f"{API}/auth/identity-keys"), ("POST", f"{API}/auth/identity-keys:rotate")):
            refused = await made.client.request(method, path, headers=bearer, json={} if method == "POST" else None)
            assert 403 == refused.status_code, refused.text


async def test_without_an_issuer_there_are_no_documents() -> None:
    async with house(issuer=None) as made:
        for path in ("/.well-known/openid-configuration", "/.well-known/identity-keys.json"):
            assert 404 == (await made.client.get(path)).status_code
