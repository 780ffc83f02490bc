"""People who sign in, for tests of the API."""

from __future__ import annotations

from typing import Any, Final

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.app import API, World
from tickwise.control.people.tokens import SigningKey, key_id_of

PASSWORD: Final = "four quiet herons wade"
OTHER_PASSWORD: Final = "nine purple kettles hum"


def signing_key() -> SigningKey:
    """A new private key."""
    private = Ed25519PrivateKey.generate()
    return SigningKey(key_id_of(private.public_key()), private)


async def ask(here: World, credential: str | None, method: str, path: str, **more: Any) -> httpx2.Response:
    """A request with this key or token; None: without any. `namespace`: the one that it names."""
    headers = {"Authorization": "" if credential is None else f"Bearer {credential}"}
    if "namespace" in more:
        headers["Tickwise-Namespace"] = more.pop("namespace")
    place = path if path.startswith("/.") else f"{API}{path}"
    return await here.client.request(method, place, headers=headers, **more)


async def person(here: World, name: str, *roles: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """A person with roles, each a name and a namespace."""
    body = {
        "name": name,
        "password": PASSWORD,
        "roles": [{"role": role, "namespace": namespace} for role, namespace in roles],
        **fields,
    }
    answer = await here.client.post(f"{API}/users", json=body)
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def signed_in(here: World, name: str, password: str = PASSWORD, **fields: Any) -> dict[str, Any]:
    """The tokens of a person."""
    body = {"grant_type": "password", "username": name, "password": password, **fields}
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found
