"""An issuer whose keys a test holds: it signs tokens that no certified provider would, and answers badly on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

CLIENT: Final = "tickwise"
_RSA: Final[dict[str, rsa.RSAPrivateKey]] = {}


def private_key(name: str, algorithm: str = "RS256", bits: int = 2_048) -> Any:
    """A private key of this name, made once in a process: RSA takes a while."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1())
    named = f"{name} {bits}"
    if named not in _RSA:
        _RSA[named] = rsa.generate_private_key(65_537, bits)
    return _RSA[named]


class SigningIssuer:
    """`async with` listens. What it publishes and answers may be changed at any time."""

    def __init__(self, algorithm: str = "RS256") -> None:
        self.keys: dict[str, Any] = {}
        """Private keys by their names; their public halves are published."""
        self.algorithm = algorithm
        self.metadata: dict[str, Any] = {}
        """In place of fields of its metadata; None: the field is absent."""
        self.tokens: Mapping[str, Any] = {}
        """The answer of the token endpoint."""
        self.tokens_status = 200
        self.userinfo: Mapping[str, Any] = {}
        self.raw: dict[str, bytes] = {}
        """In place of the bodies of paths."""
        self.statuses: dict[str, int] = {}
        self.hangs = False
        self.asked: list[str] = []
        """The paths of requests."""
        self.forms: list[dict[str, str]] = []
        self._over = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.rotate("k1")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.close()
        await self._server.wait_closed()

    def rotate(self, name: str, *, keep: bool = False) -> None:
        """Sign with another key."""
        key = private_key(name, self.algorithm)
        self.keys = {**(self.keys if keep else {}), name: key}

    def sign(self, claims: Mapping[str, Any], *, key: str | None = None, **headers: Any) -> str:
        """A token with these claims, by the last key."""
        name = key or [*self.keys][-1]
        return jwt.encode(
            {**claims}, self.keys[name], algorithm=self.algorithm, headers={"kid": name, "typ": "JWT", **headers}
        )

    def published(self) -> list[dict[str, Any]]:
        """The key set."""
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return [
            {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}
            for name, key in self.keys.items()
        ]

    def _document(self, path: str) -> Mapping[str, Any]:
        if path == "/.well-known/openid-configuration":
            whole = {
                "issuer": self.url, "jwks_uri": f"{self.url}/jwks", "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/auth", "userinfo_endpoint": f"{self.url}/me", **self.metadata,
            }  # fmt: skip
            return {name: value for name, value in whole.items() if value is not None}
        return {"/jwks": {"keys": self.published()}, "/token": self.tokens, "/me": self.userinfo}.get(path, {})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = urlsplit(head.split(" ", 2)[1]).path
                length = next((int(x[15:]) for x in head.lower().split("\r\n") if x.startswith("content-length:")), 0)
                form = (await reader.readexactly(length)).decode()
                self.asked.append(path)
                if form:
                    self.forms.append({name: values[0] for name, values in parse_qs(form).items()})
                if self.hangs:
                    await self._over.wait()
                    break
                status = self.tokens_status if path == "/token" else self.statuses.get(path, 200)
                body = self.raw.get(path) or json.dumps(self._document(path)).encode()
                writer.write(
                    b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(body))
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
