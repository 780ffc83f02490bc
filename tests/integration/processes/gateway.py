"""Two gateways before services that run apart, and a client that asks as one behind a gateway has to: again."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import httpx2

from tests.integration.processes.fleet import KEY
from tests.support.waiting import eventually

AGAIN: Final = frozenset({429, 500, 502, 503, 504})
"""Whoever was asked was away, or somebody behind it was."""
ASK_SECONDS: Final = 90.0
TEMPLATE: Final = re.compile(r"\{\w+\}")


def balanced(jobs: Sequence[str], searches: Sequence[str]) -> str:
    """What an nginx is told: everything that only reads goes to the search service, all else to the job service."""
    servers = {"jobs": jobs, "search": searches}
    upstreams = "\n".join(
        f"upstream {name} {{ {' '.join(f'server {address} max_fails=1 fail_timeout=1s;' for address in addresses)} }}"
        for name, addresses in servers.items()
    )
    return f"""
map "$request_method $uri" $service {{
    default jobs;
    "~^(GET|HEAD) /api/v1/" search;
    "~^POST /api/v1/.*:preview$" search;
}}
{upstreams}
server {{
    listen 127.0.0.1:{{port}};
    client_max_body_size 16m;
    location / {{
        proxy_pass http://$service;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_connect_timeout 2s;
        proxy_next_upstream error timeout;
    }}
}}
"""


class Gateway:
    """Asks one gateway after the other, and the same again until it is answered for good; remembers what it asked."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)
        self._asked: set[tuple[str, str]] = set()
        self.last_refusal = ""
        """The last answer that was asked for again."""
        self._turn = 0
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {KEY}"}, timeout=20, verify=False, trust_env=False
        )

    async def close(self) -> None:
        """No more requests."""
        await self._client.aclose()

    async def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        status: int | Collection[int] = 200,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """What is answered for good to one request below `/api/v1`, or outside of it if its path begins so; `body`:
        bytes as they are, or JSON."""
        wanted = {status} if isinstance(status, int) else set(status)
        place = path if path.startswith(("/livez", "/readyz", "/healthz", "/metrics", "/openapi")) else f"/api/v1{path}"
        self._asked.add((method, place.partition("?")[0]))
        sent = {**(headers or {}), **({"Idempotency-Key": str(uuid.uuid4())} if method == "POST" else {})}

        async def ask() -> httpx2.Response | None:
            self._turn += 1
            url = self._urls[self._turn % len(self._urls)] + place
            try:
                if isinstance(body, bytes):
                    found = await self._client.request(method, url, content=body, headers=sent)
                else:
                    found = await self._client.request(method, url, json=body, headers=sent)
            except httpx2.TransportError:
                return None
            if found.status_code in wanted:
                return found
            refusal = f"{method} {path}: {found.status_code} {found.text}"
            assert found.status_code in AGAIN, refusal
            self.last_refusal = refusal
            return None

        try:
            return await eventually(ask, within_seconds=ASK_SECONDS, what=f"{method} {path} is answered with {wanted}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}; the last refusal: {self.last_refusal}") from None

    async def ask(self, method: str, path: str, status: int | Collection[int] = 200, body: Any = None) -> Any:
        """The JSON of it."""
        return (await self.answer(method, path, body, status=status)).json()

    async def get(self, path: str) -> Any:
        """A read; None of what is accepted and not there yet. Whoever is asked may not have heard of it either: what
        one process accepted it tells the others as soon as it can, and if they can be told."""
        found = await self.answer("GET", path, status=(200, 202, 404))
        return found.json() if found.status_code == 200 else None

    async def until(self, path: str, holds: Callable[[Any], object], what: str) -> Any:
        """The first answer of which that holds."""

        async def look() -> tuple[Any] | None:
            found = await self.get(path)
            return (found,) if found is not None and holds(found) else None

        return (await eventually(look, within_seconds=ASK_SECONDS, what=f"{what}: {path}"))[0]

    async def unasked(self) -> set[tuple[str, str]]:
        """The routes of jobs and searches that the API describes and this client never asked. People and tokens have
        tests of their own."""
        routes = (await self.ask("GET", "/openapi.json"))["paths"]
        found = set()
        for template, methods in routes.items():
            pattern = re.compile(TEMPLATE.sub("[^/]+", template.replace(".", r"\.")))
            for method, said in methods.items():
                if said.get("x-service") in {"users", "auth"}:
                    continue
                asked = (path for verb, path in self._asked if verb == method.upper())
                # A path without a parameter is also one of `/{id}`: `/runs/counts`, `/jobs/by-key/…` are asked apart.
                if not any(pattern.fullmatch(path) for path in asked):
                    found.add((method.upper(), template))
        return found
