"""A PostgreSQL with a real hot standby, which follows it by streaming replication."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import asyncpg

from tests.support import databases
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.embedded.cluster import Cluster
from tickwise.adapters.embedded.programs import run
from tickwise.adapters.embedded.server import ServerProcess, dying_with_parent, is_ready

RULES = "local all postgres trust\nlocal replication postgres trust\n"

# A standby refuses to follow with fewer of these than its primary has.
AT_LEAST = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)


class Standby:
    """A server that follows another one, until it is cut off, and takes its place when it is promoted."""

    def __init__(self, server: ServerProcess, url: str, sockets: Path) -> None:
        """`url`: of the server that it follows."""
        self.url = _through(url, sockets)
        self._server = server
        self._superuser = _through(_as_superuser(url), sockets)

    async def cut(self) -> None:
        """It gets nothing more from its primary, as if the network between them were cut."""
        connection = await asyncpg.connect(self._superuser)
        async with databases.closed_at_end(connection):
            await connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            await connection.execute("SELECT pg_reload_conf()")
            look = "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"
            await eventually(lambda: connection.fetchval(look), what="the standby's stream is cut")

    async def promote(self) -> None:
        """It takes writes from now on, on a timeline of its own."""
        connection = await asyncpg.connect(self._superuser)
        async with databases.closed_at_end(connection):
            assert await connection.fetchval("SELECT pg_promote()") is True

    async def end(self) -> None:
        """End it."""
        await self._server.end()


@dataclass(frozen=True)
class Pair:
    """Two servers with the same role and database."""

    primary: str
    follower: Standby
    postgres: EmbeddedPostgres

    @property
    def standby(self) -> str:
        """The address of the one that follows."""
        return self.follower.url

    @property
    def both(self) -> str:
        """The address of whichever takes writes."""
        return either(self.primary, self.standby)

    async def lose_primary(self) -> None:
        """`kill -9`, and it does not come back."""
        assert self.postgres.pid is not None
        os.kill(self.postgres.pid, signal.SIGKILL)
        await self.postgres.wait()

    async def caught_up(self) -> None:
        """Wait until the standby has all that the primary has written by now."""
        primary = await asyncpg.connect(self.primary)
        async with databases.closed_at_end(primary):
            written = await primary.fetchval("SELECT pg_current_wal_insert_lsn()::text")
            # Nothing else may follow, and then the log is not sent for a while.
            await primary.execute("SELECT txid_current()")
        standby = await asyncpg.connect(self.standby)
        async with databases.closed_at_end(standby):
            look = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
            await eventually(lambda: standby.fetchval(look, written), what="the standby follows")


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """A primary that is the product's own embedded server, and a standby that was copied from it while it ran."""
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-pair-"))
    postgres = EmbeddedPostgres(data_dir, clock=SystemClock(), settings=databases.SETTINGS)
    standby: Standby | None = None
    try:
        url = await postgres.start()
        standby = await follow(postgres, url)
        yield Pair(url, standby, postgres)
    finally:
        if standby is not None:
            await standby.end()
        root = postgres._cluster.root if postgres._cluster is not None else data_dir
        await postgres.stop()
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(data_dir, ignore_errors=True)


async def follow(postgres: EmbeddedPostgres, url: str) -> Standby:
    """A hot standby of an embedded server. Its files lie beside those of that server."""
    cluster = postgres._cluster
    assert cluster is not None
    assert postgres.pid is not None
    rules = cluster.data / "pg_hba.conf"
    rules.write_text(RULES + rules.read_text())
    os.kill(postgres.pid, signal.SIGHUP)
    server, sockets = await _follow(cluster, url)
    return Standby(server, url, sockets)


async def _follow(cluster: Cluster, url: str) -> tuple[ServerProcess, Path]:
    """A standby that is ready to be asked, and the folder of its socket."""
    superuser = _as_superuser(url)
    connection = await eventually(lambda: databases.connects(superuser), what="the superuser may connect")
    async with databases.closed_at_end(connection):
        least = [f"{name}={await connection.fetchval(f'SHOW {name}')}" for name in AT_LEAST]
    data, sockets = cluster.root / "standby", cluster.root / "run2"
    for folder in (data, sockets):
        folder.mkdir(mode=0o700)
        if cluster.account is not None:
            os.chown(folder, cluster.account.uid, cluster.account.gid)
    copy: list[str | Path] = [cluster.program("pg_basebackup"), "-h", cluster.sockets, "-U", "postgres", "-D", data]
    copy += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--no-password"]
    copied = run(copy, account=cluster.account)
    assert copied.returncode == 0, copied.stdout
    settings = [*least, "listen_addresses=", f"unix_socket_directories={sockets}", "hot_standby=on", "fsync=off"]
    command: list[str | Path] = [cluster.program("postgres"), "-D", data]
    command += [word for setting in settings for word in ("-c", setting)]
    server = ServerProcess(dying_with_parent(command), account=cluster.account, log_file=cluster.root / "standby.log")
    await server.launch()

    def looked() -> bool:
        assert server.runs, "\n".join(server.last_words)
        return is_ready(data, server.pid)

    await eventually(looked, what="the standby answers")
    return server, sockets


def either(one: str, other: str) -> str:
    """The address of two servers that take turns, for the same role and database."""
    hosts = ",".join(parse_qs(urlsplit(url).query)["host"][0] for url in (one, other))
    return urlunsplit(urlsplit(one)._replace(query=f"host={quote(hosts, safe='/,')}"))


def _as_superuser(url: str) -> str:
    return url.replace("://tickwise:", "://postgres:")


def _through(url: str, sockets: Path) -> str:
    """The address by another socket: role and database stay."""
    return urlunsplit(urlsplit(url)._replace(query=f"host={quote(str(sockets), safe='/')}"))
