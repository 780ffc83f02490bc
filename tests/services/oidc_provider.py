"""A certified provider of OpenID Connect, by oidc-provider from npm, with people that sign in by their name alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.services.packages import Missing, attempted, cache, locked, program
from tests.services.server import Server

SOURCE: Final = Path(__file__).with_name("oidc")
CLIENT: Final = "tickwise"
SECRET: Final = "a secret of the client: with a colon & more"
PEOPLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "u-1": {
        "preferred_username": "ada", "name": "Ada Lovelace", "email": "ada@example.com", "email_verified": True,
        "groups": ["ops", "dev"],
    },
    "u-2": {
        "preferred_username": "bob", "name": "Bob", "email": "bob@example.com", "email_verified": True,
        "groups": ["dev"],
    },
    "u-3": {"preferred_username": "carl", "name": "Carl", "email": "carl@example.com", "email_verified": False},
}  # fmt: skip


def node_modules() -> Path:
    """The folder of the provider's packages, installed by the lock file if it is absent. Raises `Missing`."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    folder = cache() / f"oidc-provider-{hashlib.sha256(lock).hexdigest()[:12]}"
    ready = folder / "ready"
    if not ready.exists():
        folder.mkdir(exist_ok=True)
        with locked(folder / "lock"):
            if not ready.exists():
                for name in ("package.json", "package-lock.json"):
                    shutil.copy(SOURCE / name, folder / name)
                install = [program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
                said = attempted([install], dict(os.environ), before_again=[])
                if not (folder / "node_modules" / "oidc-provider").exists():
                    raise Missing(f"oidc-provider could not be installed: {' '.join(install)}\n{said[-2_000:]}")
                ready.touch()
    return folder / "node_modules"


class OidcProviderServer(Server):
    """`redirects`: the addresses to which it sends browsers back; `logout`: where it tells logouts."""

    name = "oidc"

    def __init__(
        self,
        redirects: Sequence[str],
        *,
        logout: str | None = None,
        port: int | None = None,
        clients: Sequence[Mapping[str, Any]] = (),
        groups_by_userinfo: bool = True,
        audience: str | None = None,
    ) -> None:
        """`clients`: further ones, beside `CLIENT`. `groups_by_userinfo`: ID tokens have the subject alone. `audience`:
        access tokens are JWTs for it."""
        super().__init__(port=port)
        own: dict[str, Any] = {
            "client_id": CLIENT, "client_secret": SECRET, "redirect_uris": [*redirects],
            "response_types": ["code"], "grant_types": ["authorization_code"],
            "post_logout_redirect_uris": [each.rpartition("/provider/callback")[0] for each in redirects],
        }  # fmt: skip
        if logout is not None:
            own |= {"backchannel_logout_uri": logout, "backchannel_logout_session_required": True}
        self._settings = {
            "issuer": self.url, "clients": [own, *clients], "people": PEOPLE, "groups_by_userinfo": groups_by_userinfo,
            **({} if audience is None else {"audience": audience}),
        }  # fmt: skip

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def prepare(self) -> Sequence[str]:
        modules = await asyncio.to_thread(node_modules)
        shutil.copy(SOURCE / "package.json", self.folder / "package.json")
        shutil.copy(SOURCE / "provider.mjs", self.folder / "provider.mjs")
        link = self.folder / "node_modules"
        if not link.exists():
            link.symlink_to(modules)
        (self.folder / "settings.json").write_text(json.dumps(self._settings))
        return [program("node"), str(self.folder / "provider.mjs"), str(self.folder / "settings.json")]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True

    async def control(self, what: str, **told: Any) -> None:
        """Tell it what happens: `rotate`, `people`, `slow` or `logout`."""

        def sent() -> None:
            request = urllib.request.Request(f"{self.url}/control/{what}", json.dumps(told).encode(), method="POST")
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.read()

        await asyncio.to_thread(sent)
