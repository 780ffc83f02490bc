"""An issuer of tokens on this machine: a real HTTP server with discovery and a key set that tests rotate."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.support.app import ADMIN_KEY, World
from tests.support.people import ask

AUDIENCE: Final = "https://tickwise.example.com"
SECONDS: Final = 300
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CONDITIONS: Final = {"repository": "acme/app", "ref": "refs/heads/main"}


@dataclass
class LocalIssuer:
    """It signs what it is told to."""

    url: str = ""
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The paths that were asked for."""
    is_away: bool = False
    says_issuer: str | None = None
    """Another name than its own, in its discovery."""

    def rotate(self, key_id: str) -> None:
        """Sign with a new key, and publish it in place of the others."""
        self.keys = {key_id: rsa.generate_private_key(public_exponent=65_537, key_size=2_048)}

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a usual token of a pipeline; None takes one out."""
        now = int(time.time())
        usual = {
            "iss": self.url, "aud": AUDIENCE, "sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app",
            "ref": "refs/heads/main", "iat": now, "nbf": now, "exp": now + SECONDS, "jti": f"{time.time_ns()}",
        }  # fmt: skip
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def token(self, headers: Mapping[str, Any] | None = None, **changed: Any) -> str:
        """A signed token."""
        key_id, private = next(iter(self.keys.items()))
        return jwt.encode(
            self.claims(**changed), private, algorithm="RS256", headers={"kid": key_id, **(headers or {})}
        )

    def key_set(self) -> dict[str, Any]:
        """Its public keys."""
        return {
            "keys": [
                {**json.loads(RSAAlgorithm.to_jwk(each.public_key())), "kid": key_id, "use": "sig", "alg": "RS256"}
                for key_id, each in self.keys.items()
            ]
        }

    def answer(self, path: str) -> dict[str, Any] | None:
        """The document of a path."""
        self.asked.append(path)
        if self.is_away:
            return None
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.says_issuer or self.url, "jwks_uri": f"{self.url}/keys"}
        return self.key_set() if path == "/keys" else None


@contextmanager
def local_issuer() -> Iterator[LocalIssuer]:
    """An issuer on loopback, while the block lasts."""
    issuer = LocalIssuer()
    issuer.rotate("first")

    class Handler(BaseHTTPRequestHandler):
        """Answers with documents of the issuer."""

        def do_GET(self) -> None:
            """A document, or 503."""
            found = issuer.answer(self.path)
            content = json.dumps(found).encode()
            self.send_response(503 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """No line for each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def federation(here: World, issuer: LocalIssuer, **fields: Any) -> dict[str, Any]:
    """Trust in the pipelines of one repository."""
    body = {
        "name": "pipeline", "issuer": issuer.url, "audience": AUDIENCE, "conditions": CONDITIONS,
        "permissions": ["jobs:create", "jobs:read"], **fields,
    }  # fmt: skip
    made = await ask(here, ADMIN_KEY, "POST", "/federations", json=body)
    assert 201 == made.status_code, made.text
    found: dict[str, Any] = made.json()
    return found


async def exchanged(here: World, token: str, **fields: Any) -> Any:
    """The answer to an exchange."""
    body = {"grant_type": GRANT, "assertion": token, **fields}
    return await ask(here, None, "POST", "/auth/token", json=body)
