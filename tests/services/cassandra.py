"""Nodes of Apache Cassandra from Maven's jars: one, or a cluster on 127.0.0.1, 127.0.0.2, ….

    async with Cassandra() as node:            one node
    async with cluster(3) as nodes:            three, which know each other; each can be killed, frozen, started again

The settings are those that Tickwise asks of a cluster (`commitlog_sync: batch`, Paxos v2), with a small heap. A class
data archive, kept beside the jars, halves the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from tests.services.packages import cassandra_home, program
from tests.services.server import Server, free_port

CONF: Final = Path(__file__).with_name("cassandra_node")
HEAP_MEGABYTES: Final = 400
"""320 MB are too few for the node's tables and a memtable of 96 MB."""
ARCHIVE: Final = "node.jsa"
OPTIONS_FRAME: Final = bytes([4, 0, 0, 0, 5, 0, 0, 0, 0])
"""CQL's native protocol, version 4: an OPTIONS request of stream 0 without a body; the answer is SUPPORTED, 6."""
SUPPORTED: Final = 6
JVM: Final = ("-Xshare:auto", "-Xlog:disable", "-XX:MaxDirectMemorySize=160m")
QUICK_JVM: Final = (*JVM, "-XX:TieredStopAtLevel=1")
"""Starts sooner; what runs for long costs more than twice the processor time."""


class Cassandra(Server):
    """One node. `host`: its loopback address; `seeds` and `storage_port`: how the nodes of a cluster find each other;
    `token`: its place in the ring; `shifted`: the environment of a clock that a test moves."""

    name = "cassandra"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        storage_port: int | None = None,
        seeds: Sequence[str] = (),
        token: int = 0,
        settings: Mapping[str, str] | None = None,
        shifted: Mapping[str, str] | None = None,
        jvm: Sequence[str] = QUICK_JVM,
        managed: bool = False,
    ) -> None:
        """`settings`: values for the names between @ signs in `cassandra.yaml`. `jvm`: its options. `managed`: it can
        be told something by `nodetool`."""
        super().__init__(folder, port=port)
        self.host = host
        """May be another one at the next start, as in a container."""
        self.storage_port = storage_port or free_port()
        self.archives = False
        """Set before the start: it leaves a class data archive at its orderly end, if there is none."""
        self._seeds = [*seeds]
        self._token = token
        self._settings = settings or {}
        self._jvm = jvm
        self._jmx_port = free_port() if managed else None
        self.shifted = dict(shifted or {})

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Without a keyspace."""
        return f"cassandra://{self.address}"

    async def prepare(self) -> Sequence[str]:
        return await asyncio.to_thread(self._prepare)

    def environment(self) -> Mapping[str, str]:
        return {"JAVA_TOOL_OPTIONS": "", **self.shifted}

    def answers(self) -> bool:
        with socket.create_connection((self.host, self.port), timeout=5) as connection:
            connection.settimeout(5)
            connection.sendall(OPTIONS_FRAME)
            return connection.recv(9)[4:5] == bytes([SUPPORTED])

    def _prepare(self) -> list[str]:
        home = cassandra_home()
        conf, data = self.folder / "conf", self.folder / "data"
        conf.mkdir(exist_ok=True)
        data.mkdir(exist_ok=True)
        (conf / "cassandra.yaml").write_text(self._yaml(data))
        self.archives = self.archives and not (home / ARCHIVE).exists()
        archive = home / ARCHIVE
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        if self.archives:
            shared = [f"-XX:ArchiveClassesAtExit={self.folder / ARCHIVE}"]
        if self._jmx_port is not None:
            shared += [f"-Dcassandra.jmx.local.port={self._jmx_port}", "-Djava.rmi.server.hostname=127.0.0.1"]
        return [
            program("java"), f"-Xms{HEAP_MEGABYTES}m", f"-Xmx{HEAP_MEGABYTES}m", *self._jvm, *shared,
            *self._java_options(), f"-Djava.io.tmpdir={conf}", "-Dcassandra-foreground=yes",
            "-cp", _jars(), "org.apache.cassandra.service.CassandraDaemon",
        ]  # fmt: skip

    def _java_options(self) -> list[str]:
        """Of each program of Cassandra's on this node."""
        return [
            f"@{CONF / 'jvm.options'}", f"-Dcassandra.config=file://{self.folder}/conf/cassandra.yaml",
            f"-Dcassandra.storagedir={self.folder}/data", f"-Dcassandra.logdir={self.folder}",
            f"-Dlogback.configurationFile={CONF / 'logback.xml'}",
        ]  # fmt: skip

    async def nodetool(self, *words: str) -> str:
        """`nodetool WORDS` on a node that is managed. Raises AssertionError with what it said if it failed."""
        assert self._jmx_port is not None, "this node is not managed"
        return await asyncio.to_thread(self._nodetool, str(self._jmx_port), *words)

    def _nodetool(self, port: str, *words: str) -> str:
        command = [
            program("java"), *self._java_options(), f"-Duser.home={self.folder}", *QUICK_JVM,
            "-cp", _jars(), "org.apache.cassandra.tools.NodeTool", "-p", port, *words,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"nodetool {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def _yaml(self, data: Path) -> str:
        values = {
            "TOKEN": str(self._token), "HOST": self.host, "DATA": str(data), "CQL_PORT": str(self.port),
            "STORAGE_PORT": str(self.storage_port), "PAXOS": "v2", "COMMITLOG_SYNC": "batch", "TIMEOUT": "2s",
            "SEEDS": ",".join(f"{seed}:{self.storage_port}" for seed in self._seeds or [self.host]),
            "AUTHENTICATOR": "AllowAllAuthenticator", "ENCRYPTION": "", "COMMITLOG_PERIOD": "", **self._settings,
        }  # fmt: skip
        text = (CONF / "cassandra.yaml").read_text()
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text

    def keep_archive(self) -> None:
        """After an orderly end: what it left is for all that come later."""
        made = self.folder / ARCHIVE
        if made.exists():
            kept = cassandra_home() / ARCHIVE
            part = kept.with_suffix(f".{self.pid}")
            shutil.copyfile(made, part)
            part.rename(kept)


def _jars() -> str:
    """Its class path. In order: an archive holds for one class path."""
    return ":".join(sorted(str(jar) for jar in (cassandra_home() / "jars").glob("*.jar")))


def cluster_nodes(
    count: int,
    settings: Mapping[str, str] | None = None,
    *,
    shifted: Sequence[Mapping[str, str]] = (),
    jvm: Sequence[str] = QUICK_JVM,
) -> list[Cassandra]:
    """So many nodes on 127.0.0.1, 127.0.0.2, …, none of which is started. As `cluster` takes them."""
    hosts = [f"127.0.0.{number + 1}" for number in range(count)]
    port, storage_port = free_port(), free_port()
    step = (1 << 64) // count
    return [
        Cassandra(
            port=port, host=host, storage_port=storage_port, seeds=hosts, token=-(1 << 63) + 1 + number * step,
            settings=settings, shifted=shifted[number] if shifted else None, jvm=jvm,
        )
        for number, host in enumerate(hosts)
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def cluster(
    count: int,
    settings: Mapping[str, str] | None = None,
    *,
    shifted: Sequence[Mapping[str, str]] = (),
    jvm: Sequence[str] = QUICK_JVM,
) -> AsyncIterator[list[Cassandra]]:
    """Start so many nodes on 127.0.0.1, 127.0.0.2, …, one after the other. `shifted`: of each node, as `Cassandra`
    takes it. `jvm`: the options of each."""
    nodes = cluster_nodes(count, settings, shifted=shifted, jvm=jvm)
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
        yield nodes
