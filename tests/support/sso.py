"""People that walk through a real provider to the pages, for tests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.services.oidc_provider import CLIENT, SECRET, OidcProviderServer
from tests.support.pages import LOCAL, Browser, Rig, pages
from tickwise.adapters.oidc.provider import ClientConfig, OidcProvider
from tickwise.adapters.oidc.requests import IssuerRequests, OutgoingWay
from tickwise.control.people.sso.rules import ProviderRules, SsoConfig
from tickwise.control.people.sso.service import CALLBACK
from tickwise.domain.accounts.role_mapping import read_role_mapping
from tickwise.ports.clock import Clock
from tickwise.testing.clock import ShiftedClock

ROLES: Final = "ops=admin@*; dev=developer"
LOGIN: Final = "/login/provider"
HOPS_MAX: Final = 10


@asynccontextmanager
async def sso_pages(
    server: OidcProviderServer,
    *,
    roles: str = ROLES,
    clock: Clock | None = None,
    requests: IssuerRequests | None = None,
    rules: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Rig]:
    """Pages that this provider signs people in to. `requests`: the way there. `rules`: fields of `ProviderRules`."""
    clock = clock or ShiftedClock()
    client = ClientConfig(
        client_id=CLIENT, client_secret=SECRET, redirect_uri=LOCAL + CALLBACK,
        scopes=("openid", "profile", "email", "groups"),
    )  # fmt: skip
    requests = requests or IssuerRequests(OutgoingWay(timeout_seconds=60.0))
    provider = OidcProvider(server.url, client, requests, clock)
    given = ProviderRules(public_url=LOCAL, roles=read_role_mapping(roles), **(rules or {}))
    try:
        async with pages(clock=clock, sso=SsoConfig(provider, given), **options) as rig:
            yield rig
    finally:
        await provider.close()


class Person:
    """A person with a browser, who has cookies here and at the provider."""

    def __init__(self, rig: Rig, login: str) -> None:
        rig.machines += 1
        self.login = login
        self.browser: Browser = rig.browser(address=f"127.0.0.{rig.machines + 1}")
        # No connection outlives its request, so nobody has to close this.
        self.there = httpx2.AsyncClient(
            follow_redirects=False, limits=httpx2.Limits(max_keepalive_connections=0), timeout=60.0
        )
        self.session: str | None = None
        """The cookie of the session here."""
        self.secret: str | None = None
        """The cookie of the sign-in that is under way."""

    async def get(self, path: str) -> httpx2.Response:
        """A page of ours, with all cookies."""
        self.browser.cookie = "; ".join(each for each in (self.session, self.secret) if each) or None
        answer = await self.browser.get(path)
        for header in answer.headers.get_list("set-cookie"):
            pair, _, rest = header.partition(";")
            value = None if "Max-Age=0" in rest else pair
            if pair.partition("=")[0].endswith("-sign-in"):
                self.secret = value
            else:
                self.session = value
        return answer

    async def begin(self, back: str = "/jobs") -> str:
        """The address at the provider to which the button leads."""
        answer = await self.get(f"{LOGIN}?next={back}")
        assert 303 == answer.status_code, answer.text
        return str(answer.headers["location"])

    async def at_provider(self, url: str) -> str:
        """Walk through the provider; the path and query of ours to which it sends back."""
        answer = await self.there.get(url)
        for _ in range(HOPS_MAX):
            place = answer.headers.get("location")
            if place is None:
                assert "asks who you are" in answer.text, answer.text[:2_000]
                answer = await self.there.post(str(answer.url), data={"login": self.login})
                continue
            if place.startswith(LOCAL):
                return str(place.removeprefix(LOCAL))
            answer = await self.there.get(str(httpx2.URL(url).join(place)))
        raise AssertionError("the provider leads nowhere")

    async def sign_in(self, back: str = "/jobs") -> httpx2.Response:
        """The whole way; the answer of the callback."""
        return await self.get(await self.at_provider(await self.begin(back)))


def query_of(url: str) -> dict[str, str]:
    """The parameters of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def fault_of(answer: httpx2.Response) -> str:
    """The refusal that a sign-in page shows."""
    found = re.search(r'<p class="alert bad" role="alert">([^<]*)</p>', answer.text)
    assert found is not None, answer.text[:2_000]
    return found[1]
