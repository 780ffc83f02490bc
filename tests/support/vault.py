"""A double of Vault's API, as its documentation says: KV version 2, AppRole and JWT sign-in, leases and policies.

It is no Vault. It keeps to what a client can see of `/v1/MOUNT/data/PATH` and `/v1/auth/MOUNT/login`: statuses, the
shape of answers, tokens that end, policies by path. The JWT sign-in reads the discovery document and the keys of the
issuer over HTTP, and checks a token by PyJWT as the role says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import jwt
from aiohttp import web

from tickwise.adapters.clock import SystemClock

ROOT: Final = "root-token"
_CLOCK: Final = SystemClock()


@dataclass
class VaultDouble:
    """One server: entries, and the tokens that may read them."""

    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By `MOUNT/PATH`."""
    tokens: dict[str, tuple[str, ...]] = field(default_factory=lambda: {ROOT: ("",)})
    """The prefixes of `MOUNT/data/PATH` that a token may read."""
    role_id: str = "role-of-tickwise"
    secret_id: str = "secret-of-tickwise"
    issuer: str | None = None
    audience: str = "vault"
    policies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the JWT role: prefixes by the claim `namespace`."""
    status: int | None = None
    """Every answer has this status."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    lease_seconds: int = 60
    made: int = 0

    def application(self) -> web.Application:
        """Its routes."""
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/{path:.*}", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        """Any request."""
        path = request.path.removeprefix("/v1/")
        self.requests.append((request.method, request.raw_path))
        if self.status is not None:
            return _errors(self.status)
        if path.startswith("auth/") and path.endswith("/login") and request.method == "POST":
            return await self._login(path.split("/")[1], await request.json())
        token = request.headers.get("X-Vault-Token", "")
        prefixes = self.tokens.get(token)
        if prefixes is None or not path.startswith(prefixes):
            return _errors(403, "permission denied")
        mount, _, rest = path.partition("/data/")
        entry = self.entries.get(f"{mount}/{rest}")
        if entry is None:
            return _errors(404)
        metadata = {"created_time": "2026-11-27T02:00:00Z", "deletion_time": "", "destroyed": False, "version": 1}
        return web.json_response({"lease_id": "", "data": {"data": dict(entry), "metadata": metadata}})

    async def _login(self, mount: str, body: Mapping[str, Any]) -> web.Response:
        if mount == "approle":
            if (body.get("role_id"), body.get("secret_id")) != (self.role_id, self.secret_id):
                return _errors(400, "invalid role or secret ID")
            return self._session(("",))
        try:
            claims = await self._checked(str(body["jwt"]))
        except (jwt.PyJWTError, KeyError) as error:
            return _errors(400, f"error validating token: {error}")
        return self._session(self.policies.get(claims["namespace"], ()))

    async def _checked(self, token: str) -> Mapping[str, Any]:
        """The claims of a good token, with the keys that its issuer publishes."""
        assert self.issuer is not None
        async with httpx2.AsyncClient() as client:
            document = (await client.get(f"{self.issuer}/.well-known/openid-configuration")).json()
            keys = jwt.PyJWKSet.from_dict((await client.get(document["jwks_uri"])).json())
        found: Mapping[str, Any] = jwt.decode(
            token,
            keys[jwt.get_unverified_header(token)["kid"]],
            algorithms=document["id_token_signing_alg_values_supported"],
            audience=self.audience,
            issuer=self.issuer,
        )
        return found

    def _session(self, prefixes: tuple[str, ...]) -> web.Response:
        self.made += 1
        token = f"hvs.{self.made}.{_CLOCK.random_bytes(8).hex()}"
        self.tokens[token] = prefixes
        auth = {"client_token": token, "lease_duration": self.lease_seconds, "renewable": True}
        return web.json_response({"auth": auth})


def _errors(status: int, *errors: str) -> web.Response:
    return web.json_response({"errors": list(errors)}, status=status)
