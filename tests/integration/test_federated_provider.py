"""Service accounts of a real provider: a program gets an access token by client credentials there, and hands it in."""

from __future__ import annotations

from typing import Any, Final

import httpx2

from tests.services.oidc_provider import OidcProviderServer
from tests.support.app import ADMIN_KEY, world
from tests.support.people import ask, signing_key
from tickwise.adapters.oidc.federated import FederatedTokens
from tickwise.testing.clock import ShiftedClock

AUDIENCE: Final = "https://tickwise.example.com"
REPORTS: Final = {
    "client_id": "reports", "client_secret": "a-secret-of-the-program-of-reports", "redirect_uris": [],
    "response_types": [], "grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_post",
}  # fmt: skip


async def credentials(server: OidcProviderServer) -> str:
    """An access token of the program."""
    form = {"grant_type": "client_credentials", "client_id": "reports", "client_secret": REPORTS["client_secret"]}
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{server.url}/token", data=form)
    assert 200 == answer.status_code, answer.text
    return str(answer.json()["access_token"])


async def test_a_service_account_of_a_provider_needs_no_key_here() -> None:
    """Its token is taken once, also after the provider has rotated its keys; that of another program is not taken."""
    clock = ShiftedClock()
    verifier = FederatedTokens(clock, allow=["127.0.0.1"])
    async with (
        OidcProviderServer([], clients=[REPORTS], audience=AUDIENCE) as server,
        world(verifier=verifier) as here,
    ):
        await here.control.bearers.sign_with(signing_key())
        trust: dict[str, Any] = {"issuer": server.url, "audience": AUDIENCE, "role": "operator"}
        for name in ("reports", "billing"):
            made = {**trust, "name": name, "conditions": {"sub": name}}
            assert 201 == (await ask(here, ADMIN_KEY, "POST", "/federations", json=made)).status_code

        async def exchange(token: str, **fields: Any) -> Any:
            body = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": token, **fields}
            return await ask(here, None, "POST", "/auth/token", json=body)

        token = await credentials(server)
        assert 401 == (await exchange(token, federation="billing")).status_code
        taken = await exchange(token)
        assert 200 == taken.status_code, taken.text
        me = (await ask(here, taken.json()["access_token"], "GET", "/auth/me")).json()
        assert "reports (reports)" == me["name"]
        assert 401 == (await exchange(token)).status_code
        await server.control("rotate", keep=False)
        clock.shift(11.0)
        renewed = await exchange(await credentials(server))
        assert 200 == renewed.status_code, renewed.text
    await verifier.close()
