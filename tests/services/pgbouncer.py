"""A PgBouncer before a PostgreSQL, as most hosted ones have it."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from tests.services.packages import program
from tests.services.server import Server

CONFIGURATION = """
[databases]
{database} = host={host} port={server_port} dbname={database} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
{settings}
"""


class PgBouncer(Server):
    """`database_url`: the database behind it. `settings`: more of pgbouncer.ini, such as `{"pool_mode": "session"}`."""

    name = "pgbouncer"

    def __init__(
        self,
        database_url: str,
        folder: Path | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port=port)
        self._behind = urlsplit(database_url)
        self._settings = settings or {}

    @property
    def url(self) -> str:
        """Of the database, through it."""
        who, at, _ = self._behind.netloc.rpartition("@")
        return urlunsplit(self._behind._replace(netloc=f"{who}{at}{self.address}", query=""))

    async def prepare(self) -> Sequence[str]:
        pgbouncer = await asyncio.to_thread(program, "pgbouncer")
        behind, file = self._behind, self.folder / "pgbouncer.ini"
        place = parse_qs(behind.query)  # where a server listens on a socket of Unix, its address says so there
        file.write_text(
            CONFIGURATION.format(
                database=behind.path.removeprefix("/"),
                host=behind.hostname or place["host"][0],
                server_port=behind.port or place.get("port", ["5432"])[0],
                user=unquote(behind.username or ""),
                password=unquote(behind.password or ""),
                port=self.port,
                settings="\n".join(f"{name} = {value}" for name, value in self._settings.items()),
            )
        )
        # It refuses to run as root. It reads its file before it becomes the user that may use the server's socket.
        user = pwd.getpwuid(os.stat(place["host"][0]).st_uid).pw_name if "host" in place else "nobody"
        return [pgbouncer, *(["-u", user] if os.geteuid() == 0 else []), str(file)]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
