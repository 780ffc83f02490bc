"""An nginx with one configuration, as a user's load balancer."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.services.packages import program
from tests.services.server import Server

# Everything it writes lies in its folder, so that two of them, or a user that is not root, do not meet. One process: a
# worker would outlive a master that is killed, and hold its port.
MAIN = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
{user}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{http}
}}
"""


class Nginx(Server):
    """`http`: what stands inside of `http { … }`, with `{port}` where its port belongs."""

    name = "nginx"

    def __init__(self, http: str, folder: Path | None = None, *, port: int | None = None) -> None:
        super().__init__(folder, port=port)
        self._http = http

    @property
    def url(self) -> str:
        """Of its first server."""
        return f"http://{self.address}"

    async def prepare(self) -> Sequence[str]:
        nginx = await asyncio.to_thread(program, "nginx")
        file = self.folder / "nginx.conf"
        # Started as root, its workers would become somebody who may not enter this folder.
        user = "user root;" if os.geteuid() == 0 else ""
        file.write_text(MAIN.format(folder=self.folder, user=user, http=self._http.replace("{port}", str(self.port))))
        return [nginx, "-e", "stderr", "-p", str(self.folder), "-c", str(file)]

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
