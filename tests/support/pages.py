"""The pages over a memory store, in this process, without a socket; and people who are signed in to them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

import httpx2
from starlette.requests import Request

from tests.support.app import World, world
from tests.support.people import PASSWORD, person
from tickwise.domain.model import Origin, Principal
from tickwise.web.app import Pages, PagesConfig
from tickwise.web.transport import Transport
from tickwise.web.vouching.headers import ProxyHeaders

LOCAL: Final = "http://127.0.0.1:8470"
SAME_ORIGIN: Final = {"Sec-Fetch-Site": "same-origin"}


class Unpaced:
    """Lets each request through."""

    async def admit_address(self, address: str) -> None: ...

    async def admit(self, principal: Principal) -> None: ...


@dataclass(slots=True)
class Rig:
    """The pages of a world, and what they told of their answers."""

    here: World
    pages: Pages
    told: list[tuple[str, int]] = field(default_factory=list)
    machines: int = 0
    """The number of machines from which people signed in."""

    def browser(self, *, address: str = "127.0.0.1", base: str = LOCAL) -> Browser:
        """A browser on a machine with this address."""
        transport = httpx2.ASGITransport(app=self.pages, client=(address, 4711))
        return Browser(httpx2.AsyncClient(transport=transport, base_url=base))

    async def signed_in(self, name: str, *roles: tuple[str, str]) -> Browser:
        """The browser of a new person with these roles, each a name and a namespace. Each is at a loopback address of
        its own: from one address only so many people sign in at once."""
        await person(self.here, name, *roles)
        self.machines += 1
        browser = self.browser(address=f"127.0.{self.machines // 250}.{self.machines % 250 + 1}")
        answer = await browser.sign_in(name)
        assert 303 == answer.status_code, answer.text
        return browser


class Browser:
    """Keeps cookies, and says of its forms where they come from. It keeps a Secure cookie on loopback, as browsers do:
    httpx does not."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.cookie: str | None = None
        """`name=value`, as it is sent."""

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """A page."""
        return await self._ask("GET", path, headers, None)

    async def ask(self, method: str, path: str, **headers: str) -> httpx2.Response:
        """A request by another method."""
        return await self._ask(method, path, headers, None)

    async def post(self, path: str, form: Mapping[str, str] | None = None, **headers: str) -> httpx2.Response:
        """A form that is sent from one of our pages, unless the headers say otherwise."""
        return await self._ask("POST", path, {**SAME_ORIGIN, **headers}, form or {})

    async def sign_in(self, name: str, password: str = PASSWORD, **fields: str) -> httpx2.Response:
        """Send the form of the sign-in."""
        return await self.post("/login", {"username": name, "password": password, **fields})

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], form: Any) -> httpx2.Response:
        said = {name.replace("_", "-"): value for name, value in headers.items() if value}
        if self.cookie is not None:
            said["Cookie"] = self.cookie
        answer = await self.client.request(method, path, headers=said, data=form, follow_redirects=False)
        for header in answer.headers.get_list("set-cookie"):
            pair, _, rest = header.partition(";")
            self.cookie = None if "Max-Age=0" in rest else pair
        self.client.cookies.clear()
        return answer


@asynccontextmanager
async def pages(
    *, tls_at_proxy: bool = False, proxies: ProxyHeaders | None = None, **options: Any
) -> AsyncIterator[Rig]:
    """A world with pages. `proxies`: those that sign people in before them."""
    async with world(**options) as here:
        told: list[tuple[str, int]] = []

        def answered(
            request: Request, route: str, status: int, seconds: float, who: Principal | None, origin: Origin
        ) -> None:
            told.append((f"{request.method} {route}", status))

        config = PagesConfig(
            address=lambda scope: scope["client"][0],
            paces=Unpaced(),
            answered=answered,
            transport=Transport(tls_at_proxy=tls_at_proxy),
            proxies=proxies or ProxyHeaders(),
        )
        yield Rig(here, Pages(here.control, here.clock, config), told)


class Markup(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def tags(self) -> set[str]:
        """The names of all elements."""
        return {tag for tag, _ in self.elements}

    def named(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return re.sub(r"\s+", " ", self.text).strip()
