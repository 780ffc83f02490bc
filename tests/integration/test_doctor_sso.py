"""What `tickwise doctor sso` says of a real provider: what is right, what is not, and what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.services.oidc_provider import CLIENT, SECRET, OidcProviderServer
from tests.support.local_up import call_command, environment
from tickwise.adapters.store.postgres import upgrade
from tickwise.config import Settings
from tickwise.ports.identity.oidc import ProviderState
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.outgoing.provider_findings import _clock, _collect

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC_URL = "https://tickwise.example.com"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[OidcProviderServer]:
    async with OidcProviderServer([f"{PUBLIC_URL}/login/provider/callback"]) as made:
        yield made


def _settings(issuer: str, **fields: Any) -> Settings:
    whole = {
        "oidc_issuer": issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET, "public_url": PUBLIC_URL,
        "oidc_roles": "ops=admin@*; dev=developer", **fields,
    }  # fmt: skip
    return Settings(**whole)


async def _found(settings: Settings, database_url: str | None = None) -> dict[str, DoctorFinding]:
    return {finding.name: finding async for finding in _collect(settings, database_url)}


async def test_a_provider_that_is_set_up_is_found_well(server: OidcProviderServer) -> None:
    """Discovery, clock, keys, the redirect address, roles."""
    found = await _found(_settings(server.url))
    assert {"discovery", "clock", "keys", "redirect address", "roles"} == {*found}
    assert {"ok"} == {each.level for each in found.values()}, found


async def test_what_is_wrong_is_named_with_what_to_do(server: OidcProviderServer) -> None:
    """An address that is not registered; a client that is not known; a provider that is away; another issuer."""
    strange = await _found(_settings(server.url, public_url="https://other.example.com"))
    assert ("error", True) == (strange["redirect address"].level, "exactly so" in strange["redirect address"].advice)
    unknown = await _found(_settings(server.url, oidc_client_id="somebody"))
    assert "error" == unknown["redirect address"].level
    slash = await _found(_settings(f"{server.url}/"))
    assert "exactly as it names itself" in slash["discovery"].detail
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = await _found(_settings(f"http://127.0.0.1:{nobody.getsockname()[1]}"))
    assert "error" == away["discovery"].level


async def test_roles_that_are_not_there_are_named(server: OidcProviderServer, database_url: str) -> None:
    """With the namespaces; without a database, custom roles cannot be seen."""
    roles = "a=made-up@*; b=viewer@nowhere; c=viewer"
    blind = await _found(_settings(server.url, oidc_roles=roles))
    assert ("warning", True) == (blind["roles"].level, "made-up@*" in blind["roles"].detail)
    await upgrade(database_url)
    found = [each async for each in _collect(_settings(server.url, oidc_roles=roles), database_url)]
    said = [each.detail for each in found if each.name == "roles"]
    assert ["made-up@*", "namespace nowhere"] == [
        name for name in ("made-up@*", "namespace nowhere", "viewer@default") if any(name in text for text in said)
    ]


async def test_a_clock_that_differs_is_named() -> None:
    """As a fault beyond the leeway."""
    levels = [_clock(ProviderState({}, 1, seconds), 60.0).level for seconds in (2.0, -30.0, 600.0, None)]
    assert ["ok", "warning", "error", "warning"] == levels


async def test_the_command_ends_with_the_verdict(server: OidcProviderServer) -> None:
    """0 if nothing is broken, and also without a provider; else 1."""
    variables = {
        "TICKWISE_OIDC_ISSUER": server.url, "TICKWISE_OIDC_CLIENT_ID": CLIENT, "TICKWISE_PUBLIC_URL": PUBLIC_URL,
        "TICKWISE_OIDC_ROLES": "ops=admin@*",
    }  # fmt: skip
    for environ, code, said in (
        (environment(**variables), 0, '"redirect address"'),
        (environment(**{**variables, "TICKWISE_PUBLIC_URL": "https://x.example"}), 1, "register it there"),
        (environment(), 0, "no provider signs people in"),
    ):
        ran = await asyncio.to_thread(call_command, ["doctor", "sso", "--json"], environ)
        assert (code, True) == (ran.code, said in ran.out), (ran.out, ran.err)
