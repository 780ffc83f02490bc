"""A namespace of its own for tests that make jobs: others count those of the default one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.browser.conftest import PASSWORD, World
from tickwise.sdk.client import Client


@dataclass(frozen=True)
class Space:
    """A namespace, and a developer of it."""

    name: str
    client: Client
    developer: str

    def at(self, path: str) -> str:
        """The address of a page in it."""
        return f"{path}{'&' if '?' in path else '?'}namespace={self.name}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the API."""
        return self.client.request(method, path, body=body).body


@contextmanager
def space(here: World, name: str) -> Iterator[Space]:
    """A namespace with a developer who has its name."""
    here.client.request("POST", "/namespaces", body={"name": name})
    roles = [{"role": "developer", "namespace": name}]
    here.client.request("POST", "/users", body={"name": f"{name} person", "password": PASSWORD, "roles": roles})
    client = Client(here.up.url, here.up.key, namespace=name)
    with client:
        yield Space(name, client, f"{name} person")
