"""A Redis that keeps nothing on disk."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.services.packages import program
from tests.services.server import Server

DATABASES: Final = 4_096
"""One for each module of tests; an empty one costs some hundred bytes."""


class Redis(Server):
    """`settings`: more of redis.conf, as `{"maxmemory": "10mb"}`; `password`: without it nobody is let in."""

    name = "redis"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        settings: dict[str, str] | None = None,
        password: str = "",
    ) -> None:
        super().__init__(folder, port=port)
        self._settings = settings or {}
        self._password = password

    @property
    def url(self) -> str:
        """Of its first database."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}{self.address}/0"

    async def prepare(self) -> Sequence[str]:
        settings = {
            "bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no",
            "databases": str(DATABASES), "dir": str(self.folder), **self._settings,
            **({"requirepass": self._password} if self._password else {}),
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [await asyncio.to_thread(program, "redis-server"), *words]

    def answers(self) -> bool:
        return self.says("PING").startswith((b"+PONG", b"-NOAUTH"))

    def says(self, *command: str) -> bytes:
        """The first bytes of its answer to one command, past any client library. Raises OSError."""
        asked = b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in map(str.encode, command))
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(asked)
            return connection.recv(4_096)
