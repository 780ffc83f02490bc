"""ElasticMQ, a strict server of SQS in memory: FIFO groups, deduplication and visibility as AWS documents them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.services.packages import Missing, cache, fetched_jars, program
from tests.services.server import Server

VERSION: Final = "1.7.1"
CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
"""Not looked at by this server; the client signs with them all the same."""
JVM: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
CONF: Final = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""


class ElasticMq(Server):
    """It keeps nothing on disk: killed and started again, it is empty."""

    name = "elasticmq"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def prepare(self) -> Sequence[str]:
        return await asyncio.to_thread(self._prepare)

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(4) == b"HTTP"

    def environment(self) -> Mapping[str, str]:
        return {"JAVA_TOOL_OPTIONS": ""}

    def _prepare(self) -> list[str]:
        jars = elasticmq_jars()
        conf = self.folder / "elasticmq.conf"
        conf.write_text(CONF.format(port=self.port))
        return [program("java"), *JVM, f"-Dconfig.file={conf}", "-cp", f"{jars}/*", "org.elasticmq.server.Main"]


def elasticmq_jars() -> Path:
    """The folder of its jars, fetched if they are absent. Raises `Missing`."""
    if shutil.which("java") is None and os.geteuid():
        raise Missing("java is not on this machine. Install Debian's package default-jre-headless")
    pom = Path(__file__).with_name("elasticmq.xml")
    return fetched_jars(cache() / f"elasticmq-{VERSION}", pom, "elasticmq.version", VERSION)
